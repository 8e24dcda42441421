/** Tests rights that a placement takes from PUBLIC, keeps, and gives back. */
import { describe, expect, inject, test } from 'vitest'
import type { PublicRight } from '../../../tenants/isolation/driver.ts'
import { createInstallation, provisioned } from './installation.fixture.ts'
import { auditOf, NOTES, openOn } from './public-rights.fixture.ts'

describe('the rights of PUBLIC on a placement', () => {
  test('are given back if the configuration keeps them, and are revoked again', async () => {
    const installation = await createInstallation(inject('postgresUrl'), { migrations: [NOTES] })
    const may = async () => {
      const { rows } = await installation.database.sql(
        `select has_database_privilege(rolname, current_database(), 'temporary') as temporary, has_function_privilege(rolname, 'lo_create(oid)', 'execute') as "largeObjects",
          has_function_privilege(rolname, 'lo_import(text)', 'execute') as files from pg_roles where rolname = $1`,
        [(await installation.prepare()).scopeRole],
      )
      return rows[0]
    }
    const start = async (publicRights?: readonly PublicRight[]) =>
      provisioned(await openOn(installation, 'schema-pg', publicRights), 'a')
    await Promise.all([start(), start(), start()])
    expect(await may()).toEqual({ temporary: false, largeObjects: false, files: false })
    await start(['temporary', 'large-objects'])
    expect(await may()).toEqual({ temporary: true, largeObjects: true, files: false })
    await start(['temporary'])
    expect(await may()).toEqual({ temporary: true, largeObjects: false, files: false })
    await installation.end()
  })

  test('stay if the owner may not revoke them: the doctor prints the statements for an administrator', async () => {
    const name = `owner_${Math.random().toString(36).slice(2, 10)}`
    const installation = await createInstallation(inject('postgresUrl'), {
      ownerUrl: (url) => Object.assign(new URL(url), { username: name, password: 'p' }).href,
    })
    const { database } = installation
    await database.sql(`create role ${name} login createrole password 'p'`)
    await database.sql(`grant all on database ${new URL(installation.url).pathname.slice(1)} to ${name}`)
    await database.sql(
      `grant all on schema multitenancy to ${name}; grant all on all tables in schema multitenancy to ${name}`,
    )
    const driver = await openOn(installation, 'schema-pg')
    await provisioned(driver, 'acme')
    const statements: string[] = []
    for (const finding of await auditOf(driver)) {
      expect(finding).toMatchObject({ severity: 'warn' })
      expect(finding.fixable).toBeUndefined()
      statements.push(finding.remedy)
    }
    expect(statements).toHaveLength(4)
    expect(statements.join()).toContain(`grant pg_signal_backend to ${name}`)
    await database.sql(statements.join(';'))
    expect(await auditOf(driver)).toEqual([])
    await driver.stop()
    await database.sql(`drop owned by ${name}`)
    await installation.end()
  })
})
