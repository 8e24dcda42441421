import { customers } from '../customers.ts'
import { expectThat } from '../expectations.ts'
import { act, heading, say } from '../print.ts'
import type { Tour } from './chapter.ts'

export async function rows({ tenancy }: Tour): Promise<void> {
  heading('Use the tenants as a host does: rows of each tenant, through the library')
  say("Each tenant has the tables of the host's migrations: 0001_notes ran when the tenant was created.")
  const { data: tenants } = await tenancy.tenants.list({ limit: 200 })
  for (const { tenant, notes } of customers) {
    const id = tenants.find(({ name }) => name === tenant.name)?.id ?? ''
    const { db } = await tenancy.tenant(id)
    await db
      .insertInto('notes')
      .values(notes.map((title) => ({ title })))
      .execute()
    const read = await db.selectFrom('notes').select(['id', 'title']).orderBy('id').execute()
    expectThat(
      read.map(({ title }) => title).join() === notes.join(),
      `${tenant.name} reads its own ${notes.length} notes`,
    )
    act(`(await tenancy.tenant('${id}')).db`, `reads ${read.length} of ${notes.length} notes: ${read[0]?.title}`)
  }
}
