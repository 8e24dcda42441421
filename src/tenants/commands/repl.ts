/** `tenant:repl`: an interactive prompt in the scope of one tenant. */
import { sql as sqlText } from 'kysely'
import { command } from '../part.ts'

export const promptCommand = command({
  name: 'tenant:repl',
  changesStorage: false,
  summary: 'Open a JavaScript prompt with a tenant’s storage: db, pool, transaction, sql`…`',
  arguments: [{ name: 'id', summary: 'id of the tenant', required: true }],
  run: async (tenants, { args, terminal }) => {
    const { id, db, pool, transaction } = await tenants.handle(args.id ?? '')
    const record = await tenants.get(id)
    const sql = async (texts: TemplateStringsArray, ...values: unknown[]) =>
      (await sqlText(texts, ...values).execute(db)).rows
    terminal.say(
      `${record.name} (${id}) on ${record.isolation}. Try: await sql\`select 1\`, await db.introspection.getTables()`,
    )
    terminal.say('names: tenant, db, pool, transaction, sql; Ctrl-D leaves')
    await terminal.prompt(id, { tenant: record, db, pool, transaction, sql })
  },
})
