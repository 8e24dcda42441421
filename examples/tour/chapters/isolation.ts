import { sql } from 'kysely'
import { expectThat, failureOf } from '../expectations.ts'
import { act, heading, say } from '../print.ts'
import type { Tour } from './chapter.ts'

const INSUFFICIENT_PRIVILEGE = '42501'

export async function isolation({ tenancy }: Tour): Promise<void> {
  heading('Isolation: what one tenant sees of another')
  const { db } = await tenancy.tenant('casa-verde')
  const other = await tenancy.tenant('hexagon-robotics')

  const own = await db.selectFrom('notes').select('title').execute()
  act('casa-verde: select title from notes', `${own.length} rows, all its own, without a where clause`)
  expectThat(own.length === 2, 'casa-verde sees its two notes')

  const { numUpdatedRows } = await db
    .updateTable('notes')
    .set({ title: 'Mine!' })
    .where('id', '=', 5)
    .executeTakeFirst()
  const fifth = await other.db.selectFrom('notes').select('title').where('id', '=', 5).executeTakeFirst()
  act(
    "casa-verde: update notes set title = 'Mine!' where id = 5",
    `${numUpdatedRows} rows; hexagon-robotics keeps "${fifth?.title}"`,
  )
  expectThat(numUpdatedRows === 0n && fifth?.title === 'Patent draft', 'note 5 of another tenant is unchanged')

  const { rows } = await sql<{ schema: string }>`select current_schema() as schema`.execute(other.db)
  const schema = rows[0]?.schema ?? ''
  const qualified = `select count(*)::int as count from "${schema}".notes`
  const outcome = await sql<{ count: number }>`${sql.raw(qualified)}`.execute(db).then(
    ({ rows }) => `${rows[0]?.count} rows`,
    (error: Error) => error.message,
  )
  act(`casa-verde: ${qualified}`, outcome)
  if (outcome === '5 rows') {
    say('Schemas protect against forgotten conditions, but not against SQL that names another schema:')
    say('never run SQL written by a tenant with this kind of isolation.')
  }

  await outsideOfAnyScope(tenancy, qualified)
}

/** Runs a query with only the login of tenant queries, as a query would that bypasses Tenantry. */
async function outsideOfAnyScope({ kernel, transaction }: Tour['tenancy'], query: string): Promise<void> {
  const login = 'tenantry_tenant'
  const refused = await failureOf(() =>
    transaction(async () => {
      await kernel.database.sql(`set local session authorization ${login}`)
      await kernel.database.sql(query)
    }),
  )
  act(`outside any tenant, as ${login}: the same`, refused?.message ?? 'allowed')
  expectThat(refused?.code === INSUFFICIENT_PRIVILEGE, 'a query outside any scope has no rights')
}
