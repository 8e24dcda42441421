/**
 * Checks which guides have TypeScript, and creates their example tables on every driver. guides.slow.test.ts compiles
 * and runs the guides.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../src/drivers/isolation/database-pg.ts'
import {
  createInstallation,
  type Installation,
  locationOf,
  provisioned,
} from '../src/drivers/isolation/roles/installation.fixture.ts'
import { rowscopePg } from '../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { readTenantMigrations, type TenantMigration } from '../src/tenants/isolation/migrations.ts'
import { blocks } from './guides.fixture.ts'

test('every guide about embedding has TypeScript', () => {
  const modules = blocks.filter(({ language }) => language === 'ts')
  expect(new Set(modules.map(({ guide }) => guide))).toEqual(
    new Set([
      'adoption',
      'attention',
      'audit',
      'backups',
      'billing',
      'console',
      'embedding',
      'erasure',
      'flags',
      'impersonation',
      'isolation',
      'isolation-testing',
      'jobs',
      'metrics',
      'migrations',
      'operating',
      'resilience',
      'pgbouncer',
      'security',
      'quotas',
      'settings',
      'receiving-webhooks',
      'sso',
      'webhooks',
    ]),
  )
})

describe('tables of docs/migrations.md', () => {
  let directory: string
  let installation: Installation
  let migrations: TenantMigration[]

  beforeAll(async () => {
    const tables = blocks.find(({ guide, text }) => guide === 'migrations' && text.startsWith('-- up\n'))
    directory = await mkdtemp(join(tmpdir(), 'tenantry-guides-'))
    await writeFile(join(directory, '0001_projects.sql'), tables?.text ?? '')
    migrations = await readTenantMigrations(directory)
    installation = await createInstallation(inject('postgresUrl'))
  })
  afterAll(async () => {
    await installation?.end()
    await rm(directory, { recursive: true, force: true })
  })

  test.each([
    ['schema-pg', () => schemaPg()],
    ['rowscope-pg', () => rowscopePg()],
    ['database-pg', () => databasePg()],
  ] as const)('%s migrates and rolls back the tables of docs/migrations.md', async (_name, driver) => {
    const opened = await installation.open(await installation.prepare(), { driver, migrations })
    const [{ pool }, other] = [await provisioned(opened, 'acme'), await provisioned(opened, 'globex')]
    await pool.query(`insert into projects (name) values ('a house')`)
    await pool.query(`insert into tasks (project_id, title) select id, 'a roof' from projects`)
    expect((await pool.query('select title from task_titles')).rows).toEqual([{ title: 'a roof' }])
    expect((await other.pool.query('select title from task_titles')).rows).toEqual([])
    expect((await other.pool.query('select code from countries order by code')).rows).toHaveLength(2)
    expect(await opened.rollback(locationOf(opened, 'acme'), 1)).toEqual(['0001_projects'])
    for (const id of ['acme', 'globex']) await opened.drop(locationOf(opened, id))
  })
})
