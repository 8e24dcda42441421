/** Imports of the leak fuzzer: rows of the tenant, which must be stored, and files that try to reach another tenant. */
import type { Capabilities } from '../../tenants/isolation/driver.ts'
import { importSql } from '../../tenants/sql-import/import.ts'
import type { LeakOperation } from './operations.ts'
import type { FuzzStep } from './step.ts'

export const importOperation = (engine: Capabilities['engine']): LeakOperation => ({
  name: 'import',
  weight: 4,
  run: async (step) => {
    await importsRow(step, engine)
    await rejectsEscape(step, engine)
  },
})

const imported = ({ tenant }: FuzzStep, engine: Capabilities['engine'], text: string) =>
  importSql(tenant.source, [Buffer.from(text)] as never, { engine, signal: new AbortController().signal })

async function importsRow(step: FuzzStep, engine: Capabilities['engine']): Promise<void> {
  const [id, value] = [step.id(), step.value()]
  const insert = `insert into public.items (id, owner, value) values (${id}, '${step.mark}', ${value});`
  const copy = `copy items (id, owner, value) from stdin;\n${id}\t${step.mark}\t${value}\n\\.\n`
  const importing = imported(step, engine, engine === 'postgres' ? step.random.pick([insert, copy]) : insert)
  if (step.rows.has(id)) return step.rejected(importing, /duplicate key|UNIQUE/)
  await importing
  step.rows.set(id, value)
}

async function rejectsEscape(step: FuzzStep, engine: Capabilities['engine']): Promise<void> {
  const { location, view } = step.other
  const tenant = `set_config('app.tenant_id', '${location.locator}', true)`
  const row = `(id, owner) values (1000003, '${step.mark}')`
  const text = step.random.pick([
    `insert into "${view?.schema ?? location.locator}_".items ${row}`,
    `select 1, ${tenant}; insert into items ${row}`,
    `values (${tenant}); insert into items ${row}`,
    `do $$ begin perform ${tenant}; end $$; insert into items ${row}`,
    `set "app"."tenant_id" = '${location.locator}'; insert into items ${row}`,
    `insert into items ${row} returning ${tenant}; insert into items (id, owner) values (1000004, '${step.mark}')`,
    `insert into items (id, owner) values (1000003, ${tenant})`,
    `reset role; insert into items ${row}`,
  ])
  await step.rejected(imported(step, engine, text), 'E_INVALID_REQUEST')
}
