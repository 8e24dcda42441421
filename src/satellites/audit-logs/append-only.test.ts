import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Audited, openAudited } from './audited.fixture.ts'

const REFUSED = /audit entries are append-only: (UPDATE|DELETE|TRUNCATE) is rejected/
const ATTEMPTS = [
  `update multitenancy.audit_entries set action = 'nothing'`,
  `update multitenancy.audit_entries set action = 'nothing' where false`,
  `delete from multitenancy.audit_entries`,
  `delete from only multitenancy.audit_entries where id = (select id from multitenancy.audit_entries limit 1)`,
  `with gone as (delete from multitenancy.audit_entries returning id) select count(*) from gone`,
  `truncate multitenancy.audit_entries`,
  `update multitenancy.audit_entries_others set action = 'nothing'`,
  `delete from multitenancy.audit_entries_others`,
  `truncate multitenancy.audit_entries_others`,
  `truncate multitenancy.tenants, multitenancy.audit_entries cascade`,
  `insert into multitenancy.audit_entries select * from multitenancy.audit_entries on conflict (created_at, id) do update set action = 'x'`,
  `merge into multitenancy.audit_entries entry using multitenancy.audit_entries other on entry.id = other.id
   when matched then update set action = 'x'`,
  `merge into multitenancy.audit_entries entry using multitenancy.audit_entries other on entry.id = other.id
   when matched then delete`,
]

let audited: Audited
beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'), 'all')
  await audited.tenancy.tenants.create({ id: 'acme', name: 'Acme' })
  await audited.tenancy.tenants.waitUntilInstalled('acme', AbortSignal.timeout(20_000))
})
afterAll(() => audited.close())

const query = (text: string) => audited.tenancy.kernel.database.sql(text)
const allRows = async () => (await query('select * from multitenancy.audit_entries order by id')).rows

test.each(ATTEMPTS)('rejects a superuser: %s', async (attempt) => {
  const before = await allRows()
  expect(before.length).toBeGreaterThan(0)
  await expect(query(attempt)).rejects.toThrow(REFUSED)
  expect(await allRows()).toEqual(before)
})

test('rejects changes while session_replication_role disables triggers', async () => {
  const before = await allRows()
  await audited.tenancy.kernel.database.session(async (client) => {
    await client.query('set session_replication_role = replica')
    for (const attempt of ATTEMPTS) await expect(client.query(attempt)).rejects.toThrow(REFUSED)
  })
  expect(await allRows()).toEqual(before)
})

test('rejects the owner of the table', async () => {
  const owner = `owner_${randomBytes(6).toString('hex')}`
  await query(`create role ${owner}; grant usage on schema multitenancy to ${owner};
    alter table multitenancy.audit_entries owner to ${owner}; alter table multitenancy.audit_entries_others owner to ${owner}`)
  try {
    await audited.tenancy.kernel.database.session(async (client) => {
      await client.query(`set role ${owner}`)
      const own = ATTEMPTS.filter((attempt) => !attempt.includes('multitenancy.tenants'))
      for (const attempt of own) await expect(client.query(attempt)).rejects.toThrow(REFUSED)
    })
  } finally {
    await query(
      `alter table multitenancy.audit_entries owner to current_user; alter table multitenancy.audit_entries_others owner to current_user; drop owned by ${owner}; drop role ${owner}`,
    )
  }
})

test("the tenants' login cannot read the audit log", async () => {
  const { db } = await audited.tenancy.tenant('acme')
  for (const attempt of ['select * from multitenancy.audit_entries', ...ATTEMPTS]) {
    await expect(sql.raw(attempt).execute(db)).rejects.toThrow(/permission denied/)
  }
})
