/** One process of races.test.ts: does what it is asked to a tenant, and says what came of it. */
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { createTenancy, type Tenancy, type TenancyConfig } from '../tenancy.ts'
import { serveParent } from '../testing/child.ts'
import { type Recorded, recorded } from '../testing/recorded.ts'
import type { Action } from './lifecycle.ts'

/** Both can carry out every action; an installation `fails` by its migration. */
export const migrationsFor = (action: Action): TenancyConfig['migrations'] =>
  action === 'giveUp' ? [{ name: '0001_wrong', checksum: '', up: 'select 1 / 0' }] : []

export type Outcome = 'changed' | 'repeat' | 'refused' | 'unknown'

/** What the caller hears of an action. Of an installation it hears nothing: what it did shows in what was said. */
export async function act({ tenants }: Tenancy, id: string, action: Action): Promise<Outcome> {
  if (action === 'install' || action === 'giveUp') {
    await tenants.installation.install(id, { isLast: true })
    return 'unknown'
  }
  try {
    const { changed } = await tenants[action](id)
    return changed ? 'changed' : 'repeat'
  } catch (error) {
    if ((error as { code?: string }).code !== 'E_TENANT_STATE') throw error
    return 'refused'
  }
}

if (process.send) {
  await serveParent(async ({ url, appKey }) => {
    const tenancies = new Map<string, { tenancy: Tenancy; said: Recorded }>()
    for (const kind of ['install', 'giveUp'] as const) {
      const tenancy = await createTenancy({
        database: { url },
        appKey,
        isolation: [schemaPg({ maxConnections: 2 })],
        migrations: migrationsFor(kind),
        role: 'api',
      })
      tenancies.set(kind, { tenancy, said: recorded(tenancy) })
    }
    return async ({ id, action }: { id: string; action: Action }) => {
      const chosen = tenancies.get(action === 'giveUp' ? 'giveUp' : 'install')
      if (!chosen) throw new Error('not opened')
      return { outcome: await act(chosen.tenancy, id, action), said: chosen.said.of(id) }
    }
  })
}
