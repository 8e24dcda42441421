/**
 * Group of `isolationSuite` that connects to the server without the driver, and checks rows, privileges and
 * connections.
 */

import { inTransaction } from '../base/in-transaction.ts'
import { locationIn } from '../base/subject.ts'
import type { Vitest } from '../base/vitest.ts'
import { raw } from '../leak/operations.ts'
import { itemsOf, Outside } from '../leak/operations-server.ts'
import type { Proof } from './proof.ts'

export function serverView({ afterAll, describe, expect, test }: Vitest, proof: () => Proof): void {
  const outside = new Outside()
  const viewOf = (id: string) => {
    const { subject, driver } = proof()
    const view = subject.viewOf?.(locationIn(subject, driver, id))
    if (!view) throw new Error('the subject of a driver with a server must have viewOf')
    return view
  }

  describe('view of the server', () => {
    afterAll(() => outside.close())

    test('each row is in the storage of its tenant', async () => {
      for (const id of ['a', 'b']) {
        const view = viewOf(id)
        const rows = await outside.all(
          view,
          `select owner, tenant_id as tenant from ${itemsOf(view)} ${view.tenantColumn === undefined ? '' : 'where tenant_id = $1'}`,
          view.tenantColumn === undefined ? [] : [view.tenantColumn],
        )
        expect(rows).toEqual(Array(2).fill({ owner: `of ${id}`, tenant: view.tenantColumn ?? id }))
      }
    })

    test('the login of tenant queries reads and writes no row outside a scope', async () => {
      const view = viewOf('a')
      const items = itemsOf(view)
      for (const text of [
        `select owner from ${items}`,
        `select count(*) from ${items}`,
        `insert into ${items} (tenant_id, id, owner) values ('a', 9, 'unknown')`,
        `insert into ${items} (id, owner) values (9, 'unknown')`,
        `update ${items} set owner = 'unknown'`,
        `delete from ${items}`,
        `truncate ${items}`,
        `alter table ${items} add column owned int`,
        `create policy open on ${items} using (true)`,
        `drop table ${items}`,
      ]) {
        await expect(outside.unscoped(view, text), text).rejects.toMatchObject({ code: '42501' })
      }
      await expect(outside.unscoped(view, 'select owner from items')).rejects.toMatchObject({ code: '42P01' })
    })

    test('outside a scope, the default of the tenant column is rejected for every role', async () => {
      const view = viewOf('a')
      const query = outside.all(view, 'select tenantry.current_tenant()')
      await expect(query).rejects.toMatchObject({ code: '42501' })
    })

    test('the login of tenant queries cannot become superuser or owner, and inherits no role', async () => {
      const view = viewOf('a')
      const [login] = await outside.unscoped(
        view,
        `select rolsuper, rolbypassrls, rolinherit, rolcreaterole, rolcreatedb, rolreplication
         from pg_roles where rolname = session_user`,
      )
      expect(Object.values(login ?? {})).toEqual(Array(6).fill(false))
      const privileged = await outside.unscoped(
        view,
        `select rolname from pg_roles where pg_has_role(session_user, oid, 'member') and (rolsuper or rolbypassrls or oid in
           (select relowner from pg_class where relname = 'items' and relkind = 'r'))`,
      )
      expect(privileged).toEqual([])
    })

    test('a tenant cannot alter or truncate tables, nor reference them from its own tables', async () => {
      const { db } = proof().a
      for (const text of [
        'truncate items',
        'alter table items disable row level security',
        'alter table items add column mine int',
        'create table mine (id int)',
        'drop table items',
        'create policy open on items using (true)',
        'create trigger t before insert on items execute function suppress_redundant_updates_trigger()',
      ]) {
        await expect(raw(db, text), text).rejects.toMatchObject({ code: '42501' })
      }
    })

    test('temporary tables of the same name do not replace the tables of the tenant', async () => {
      const { a, b } = proof()
      const seen = await a.transaction(async (db) => {
        await raw(db, `create temporary table items as select 'temporary' as owner`)
        return raw(db, 'select distinct owner from items')
      })
      expect(seen).toEqual([{ owner: 'of a' }])
      for (const { id, db } of [a, b]) {
        for (let n = 0; n < 2 * proof().subject.maxConnections; n++) {
          expect(await raw(db, 'select distinct owner from items')).toEqual([{ owner: `of ${id}` }])
          await expect(raw(db, 'select * from pg_temp.items')).rejects.toMatchObject({ code: /42P01|3F000/ })
        }
      }
    })

    test.each(['a', 'b'] as const)(
      'a second release of a client of tenant a does not release the connection of tenant %s',
      async (holder) => {
        const { a, subject, [holder]: other } = proof()
        const client = await a.pool.connect()
        await client.query('select 1')
        client.release()
        const held = await Promise.all(Array.from({ length: subject.maxConnections }, () => other.pool.connect()))
        for (const one of held) await inTransaction(one)
        client.release()
        let isServed = false
        const next = a.pool.query('select 1').then(() => {
          isServed = true
        })
        for (const one of held) await one.query('select 1')
        expect(isServed).toBe(false)
        for (const one of held) {
          await one.query('commit')
          one.release()
        }
        await next
      },
    )

    test('the audit of the catalog reports no problem', async () => {
      const { subject, driver } = proof()
      const locations = async function* () {
        for (const id of ['a', 'b']) yield locationIn(subject, driver, id)
      }
      const findings = []
      for await (const finding of driver.audit(locations())) findings.push(finding)
      expect(findings.filter(({ severity }) => severity === 'error')).toEqual([])
    })

    test('the number of open connections never exceeds the limit', async () => {
      const { a, b, subject } = proof()
      const view = viewOf('a')
      let isFinished = false
      const counted: number[] = []
      const count = async () => {
        while (!isFinished) {
          const [row] = await outside.all(
            view,
            `select count(*)::int as count from pg_stat_activity where usename = $1 and application_name <> 'tenantry'`,
            [decodeURIComponent(new URL(view.tenantUrl).username)],
          )
          counted.push(row.count)
        }
      }
      const work = Array.from({ length: 40 }, (_, n) => raw((n % 2 ? a : b).db, 'select pg_sleep(0.005)'))
      const counting = count()
      await Promise.all(work)
      isFinished = true
      await counting
      expect(Math.max(...counted)).toBeGreaterThan(0)
      expect(Math.max(...counted)).toBeLessThanOrEqual(subject.maxConnections)
    })
  })
}
