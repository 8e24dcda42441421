import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { customers } from '../customers.ts'
import { expectThat } from '../expectations.ts'
import { act, heading } from '../print.ts'
import type { Tour } from './chapter.ts'

const SECOND = '0002_pinned'

/** A row of `tenant:migrate`: what was run in one tenant. */
interface Migrated {
  readonly id: string
  readonly migrations: string
}

export async function migration({ service, tenancy }: Tour): Promise<void> {
  heading('Migrate all of them: the next release of the host has another column')
  await copyFile(join(import.meta.dirname, `../${SECOND}.sql`), join(service.migrations, `${SECOND}.sql`))

  const migrated = (await service.command('tenant:migrate')) as Migrated[]
  const done = migrated.filter(({ migrations }) => migrations === SECOND)
  act('tenantry tenant:migrate', `${SECOND} in ${done.length} tenants, beside the running service`)
  expectThat(done.length === customers.length, 'every tenant is migrated')

  const again = (await service.command('tenant:migrate')) as Migrated[]
  act('tenantry tenant:migrate', `nothing left to do in ${again.filter(({ migrations }) => migrations === '').length}`)

  const { db } = await tenancy.tenant('sakura-foods')
  await db.updateTable('notes').set({ pinned: true }).where('id', '=', 1).execute()
  const pinned = await db.selectFrom('notes').select('title').where('pinned', '=', true).execute()
  act('sakura-foods: select title from notes where pinned', `${pinned.length} row: ${pinned[0]?.title}`)
  expectThat(pinned.length === 1, 'the new column is there')
}
