import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { migrate } from '../../kernel/database/migrations.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { tables } from '../tenant/tables.ts'
import { SchemaVersions } from './schema-versions.ts'

const APPLIED = [{ name: '0001_notes', checksum: '1' }]

let created: TestDatabase
let database: Database

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url }, createLogger({ level: 'silent' }))
  await migrate(database, [{ part: 'tenants', migrations: tables }])
})
afterAll(async () => {
  await database.close()
  await created.drop()
})

test('a version of a rolled-back transaction is not cached, not even after a read in it', async () => {
  const versions = new SchemaVersions(database, [])
  const rolledBack = database.transaction(async () => {
    const version = await versions.keep(APPLIED)
    expect(await versions.of(version)).toEqual(APPLIED)
    throw new Error('no')
  })
  await expect(rolledBack).rejects.toThrow('no')
  const version = await versions.keep(APPLIED)
  expect(await new SchemaVersions(database, []).of(version)).toEqual(APPLIED)
})

test('a committed version is read once', async () => {
  const versions = new SchemaVersions(database, [])
  const version = await versions.keep(APPLIED)
  await database.sql('delete from multitenancy.schema_versions')
  expect(await versions.of(version)).toEqual(APPLIED)
})
