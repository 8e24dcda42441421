/** The proof of the application key: first starts, rotation, an upgrade, recovery from a lost key. */
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { bindingOfPlacement, PLACEMENT_PASSWORDS } from '../../tenants/isolation/own-logins.ts'
import { tables as tenantTables } from '../../tenants/tenant/tables.ts'
import type { TestDatabase } from '../../testing/base/database.ts'
import { createMigratedDatabase } from '../../testing/base/template.ts'
import { createLogger } from '../base/logger.ts'
import { createSecrets } from '../crypto/crypto.ts'
import { kernelPart } from '../parts.ts'
import { assertApplicationKey, keepApplicationKey, WrongApplicationKey } from './application-key.ts'
import { Database } from './database.ts'

const log = createLogger({ level: 'silent' })
const PARTS = [
  { part: 'kernel', migrations: kernelPart.tables ?? [] },
  { part: 'tenants', migrations: tenantTables },
]
const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')

let made: TestDatabase
let database: Database
beforeEach(async () => {
  made = await createMigratedDatabase(inject('postgresUrl'), PARTS)
  database = new Database({ url: made.url }, log)
})
afterEach(async () => {
  await database.close()
  await made.drop()
})

async function start(byte: number, ...oldBytes: number[]): Promise<string> {
  const secrets = createSecrets(keyOf(byte), oldBytes.map(keyOf))
  await assertApplicationKey(database, secrets, [PLACEMENT_PASSWORDS])
  await keepApplicationKey(database, secrets)
  return 'started'
}

const storePassword = (byte: number) =>
  database.sql(`insert into multitenancy.placement_logins values ('main', 'tenantry_tenant', 'scope', $1)`, [
    createSecrets(keyOf(byte)).encrypt('a password', bindingOfPlacement('main')),
  ])

test('of ten concurrent first starts with different keys, one succeeds', async () => {
  const starts = await Promise.allSettled(Array.from({ length: 10 }, (_, byte) => start(byte)))
  const rejected = starts.filter((one) => one.status === 'rejected')
  expect(rejected).toHaveLength(9)
  for (const { reason } of rejected) expect(reason).toBeInstanceOf(WrongApplicationKey)
})

test('another key is rejected, also if the backoffice has no secrets', async () => {
  expect(await start(1)).toBe('started')
  expect(await start(1)).toBe('started')
  await expect(start(2)).rejects.toThrow(WrongApplicationKey)
})

test('a start with a new and the former key accepts only the new key from then on', async () => {
  await start(1)
  expect(await start(2, 1)).toBe('started')
  expect(await start(2)).toBe('started')
  await expect(start(1)).rejects.toThrow(WrongApplicationKey)
})

test('without a proof, the password of a login is decrypted', async () => {
  await storePassword(1)
  await expect(start(2)).rejects.toThrow(WrongApplicationKey)
  expect(await start(1)).toBe('started')
})

test('after the recovery from a lost key, a start accepts a new key', async () => {
  await start(1)
  await storePassword(1)
  await database.sql('delete from multitenancy.application_key')
  await expect(start(2)).rejects.toThrow(WrongApplicationKey)
  await database.sql('delete from multitenancy.placement_logins')
  expect(await start(2)).toBe('started')
  await expect(start(1)).rejects.toThrow(WrongApplicationKey)
})

test('a tenancy with another key is rejected before it migrates', async () => {
  await storePassword(1)
  await database.sql('drop table multitenancy.application_key')
  await database.sql(`delete from multitenancy.migrations where name = '0002_application_key'`)
  const config = { database: { url: made.url }, isolation: [schemaPg()], logger: log }
  await expect(createTenancy({ ...config, appKey: keyOf(2) })).rejects.toThrow(WrongApplicationKey)
  const { rows } = await database.sql(`select to_regclass('multitenancy.application_key') as proof`)
  expect(rows).toEqual([{ proof: null }])
})
