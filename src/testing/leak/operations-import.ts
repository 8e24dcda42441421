/** What the leak fuzzer imports: rows of this tenant, which must arrive there, and files that try to reach another one. */
import type { Capabilities } from '../../tenants/isolation/driver.ts'
import { importSql } from '../../tenants/sql-import/import.ts'
import type { LeakOperation } from './operations.ts'
import type { Turn } from './step.ts'

export const importOperation = (engine: Capabilities['engine']): LeakOperation => ({
  name: 'import',
  weight: 4,
  run: async (turn) => {
    await importsRow(turn, engine)
    await refusesEscape(turn, engine)
  },
})

const imported = ({ tenant }: Turn, engine: Capabilities['engine'], text: string) =>
  importSql(tenant.source, [Buffer.from(text)] as never, { engine, signal: new AbortController().signal })

async function importsRow(turn: Turn, engine: Capabilities['engine']): Promise<void> {
  const [id, value] = [turn.id(), turn.value()]
  const insert = `insert into public.items (id, owner, value) values (${id}, '${turn.mark}', ${value});`
  const copy = `copy items (id, owner, value) from stdin;\n${id}\t${turn.mark}\t${value}\n\\.\n`
  const importing = imported(turn, engine, engine === 'postgres' ? turn.random.pick([insert, copy]) : insert)
  if (turn.rows.has(id)) return turn.refused(importing, /duplicate key|UNIQUE/)
  await importing
  turn.rows.set(id, value)
}

async function refusesEscape(turn: Turn, engine: Capabilities['engine']): Promise<void> {
  const { place, view } = turn.other
  const tenant = `set_config('app.tenant_id', '${place.locator}', true)`
  const row = `(id, owner) values (1000003, '${turn.mark}')`
  const text = turn.random.pick([
    `insert into "${view?.schema ?? place.locator}_".items ${row}`,
    `select 1, ${tenant}; insert into items ${row}`,
    `values (${tenant}); insert into items ${row}`,
    `do $$ begin perform ${tenant}; end $$; insert into items ${row}`,
    `set "app"."tenant_id" = '${place.locator}'; insert into items ${row}`,
    `insert into items ${row} returning ${tenant}; insert into items (id, owner) values (1000004, '${turn.mark}')`,
    `insert into items (id, owner) values (1000003, ${tenant})`,
    `reset role; insert into items ${row}`,
  ])
  await turn.refused(imported(turn, engine, text), 'E_INVALID_REQUEST')
}
