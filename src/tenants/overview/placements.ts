/** Lists the placements of tenants, with their connections and circuits in this process, and the isolation drivers. */
import { z } from 'zod'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Circuits } from '../circuits/circuits.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { Counted, Counts } from './counts.ts'

export const Placement = z
  .object({
    name: z.string(),
    isConfigured: z.boolean().meta({ description: 'Whether this process has it; only then new storage can be on it' }),
    tenants: z.int().meta({ description: 'Tenants with storage there, without deleted ones; at most about 10 s old' }),
    connections: z
      .object({
        used: z.int(),
        allowed: z.int().nullable().meta({ description: 'Null if unlimited' }),
        waiting: z.int().meta({ description: 'Statements that wait for a connection' }),
      })
      .nullable()
      .meta({ description: "Connections of this process for tenants' queries; null if no driver uses a server" }),
    circuit: z.object({
      state: z.enum(['CLOSED', 'HALF_OPEN', 'OPEN']),
      openedAt: z.iso.datetime().nullable().meta({ description: 'Null while it is closed' }),
    }),
    lostSince: z.iso.datetime().nullable().meta({ description: 'Time at which an operator has declared it lost' }),
  })
  .meta({ id: 'Placement' })
export type Placement = z.output<typeof Placement>

export const Driver = z
  .object({
    name: z.string(),
    isDefault: z.boolean(),
    tenants: z.int().meta({ description: 'As for placements' }),
    copies: z.boolean().meta({ description: 'Whether it supports backups, restores, clones and moves' }),
    reach: z
      .enum(['shared database', 'own database', 'no server'])
      .meta({ description: "Dependencies of a tenant's statements" }),
  })
  .meta({ id: 'IsolationDriver' })
export type Driver = z.output<typeof Driver>

interface PlacementsDependencies {
  readonly kernel: Pick<Kernel, 'database'>
  readonly storage: Storage
  readonly circuits: Circuits
  readonly counts: Counts
}

/** Configured placements in their order, then others with tenants and lost ones, by name. */
export async function listPlacements({ kernel, storage, circuits, counts }: PlacementsDependencies) {
  const { data: counted } = await counts.get(['isolation', 'placement'])
  const { rows } = await kernel.database.sql('select placement, lost_at as "lostAt" from multitenancy.lost_placements')
  const lostAt = new Map((rows as { placement: string; lostAt: Date }[]).map((row) => [row.placement, row.lostAt]))
  const tenantsOf = (by: Counted, name: string) =>
    counted.find((one) => one.by === by && one.value === name)?.count ?? 0
  const pools = new Map(storage.connections().map((count) => [count.placement, count]))
  const states = new Map(circuits.snapshot().servers.map((report) => [report.placement, report]))
  const inUse = counted.filter(({ by }) => by === 'placement').map(({ value }) => value)
  const others = [...inUse, ...lostAt.keys()].filter((name) => !storage.placements.includes(name)).toSorted()
  const data = [...new Set([...storage.placements, ...others])].map((name): Placement => {
    const pool = pools.get(name)
    const { state = 'CLOSED', openedAt = null } = states.get(name) ?? {}
    return {
      name,
      isConfigured: storage.placements.includes(name),
      tenants: tenantsOf('placement', name),
      connections: pool ? { used: pool.idle + pool.busy, allowed: pool.max ?? null, waiting: pool.waiting } : null,
      circuit: { state, openedAt: openedAt?.toISOString() ?? null },
      lostSince: lostAt.get(name)?.toISOString() ?? null,
    }
  })
  const drivers = storage.drivers.map(
    ({ name, capabilities: { copies, reach } }): Driver => ({
      name,
      isDefault: name === storage.defaultName,
      tenants: tenantsOf('isolation', name),
      copies,
      reach,
    }),
  )
  return { data, drivers }
}
