/** The seal key while it is re-encrypted with another application key. */
import pg from 'pg'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { createSecrets } from '../../kernel/crypto/crypto.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import { BINDING, SealKeyStore } from './seal-key-store.ts'

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')
const FORMER = createSecrets(keyOf(1))
const PRESENT = createSecrets(keyOf(2), [keyOf(1)])

let audited: Audited
/** A session that re-encrypts secrets, and has not committed. */
let other: pg.Client

beforeEach(async () => {
  audited = await openAudited(inject('postgresUrl'))
  other = new pg.Client({ connectionString: audited.url })
  await other.connect()
})
afterEach(async () => {
  await other.end()
  await audited.close()
})

const keyStoreWith = (secrets: typeof FORMER) => new SealKeyStore({ ...audited.tenancy.kernel, secrets })
const secret = async (): Promise<string> =>
  (await audited.tenancy.kernel.database.sql('select secret from multitenancy.audit_state')).rows[0].secret
const kept = async () => JSON.parse(createSecrets(keyOf(2)).decrypt(await secret(), BINDING))

async function resealed(): Promise<void> {
  await other.query('begin')
  await other.query('update multitenancy.audit_state set secret = $1', [
    PRESENT.encrypt(PRESENT.decrypt(await secret(), BINDING), BINDING),
  ])
}

/** Resolves when a session waits for the commit of `other`. */
async function committed(): Promise<void> {
  const { database } = audited.tenancy.kernel
  const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  await expect.poll(async () => (await database.sql(waiting)).rows.length, { timeout: 20_000 }).toBe(1)
  await other.query('commit')
}

test('the end of the backfill is stored under the key of a concurrent re-encryption', async () => {
  await keyStoreWith(FORMER).key()
  const { key } = JSON.parse(FORMER.decrypt(await secret(), BINDING))
  await resealed()
  const adopted = keyStoreWith(PRESENT).completeBackfill()
  await committed()
  await adopted
  expect(await kept()).toEqual({ key, isAdopted: true })
})

test('a process with only the former key does not overwrite the secret', async () => {
  const keyStore = keyStoreWith(FORMER)
  await keyStore.key()
  await resealed()
  const adopted = keyStore.completeBackfill()
  const refused = expect(adopted).rejects.toThrow('an application key that is not configured')
  await committed()
  await refused
  expect(await kept()).toMatchObject({ isAdopted: false })
})
