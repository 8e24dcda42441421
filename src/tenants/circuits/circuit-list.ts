/** The list of circuits: those of all servers, and the open ones of tenants. */
import { z } from 'zod'
import { type CircuitRule, type CircuitState, stateSince } from '../../kernel/resilience/circuit.ts'
import type { ReceivedChange } from './shared-state.ts'

const MAX_TENANTS = 200

const ListedCircuit = z
  .object({
    kind: z.enum(['server', 'tenant']),
    placement: z.string().meta({ description: 'Name of the server, or of the server of the tenant' }),
    tenantId: z.string().nullable().meta({ description: 'Null for the circuit of a server' }),
    state: z.enum(['CLOSED', 'HALF_OPEN', 'OPEN']).meta({
      description: '`OPEN`: calls are rejected. `HALF_OPEN`: the next call is the probe, or the probe is in progress',
    }),
    openedAt: z.iso.datetime().nullable().meta({ description: 'Null while it is closed' }),
    nextProbeAt: z.iso
      .datetime()
      .nullable()
      .meta({ description: 'Time from which a call is admitted as the probe; null while it is closed' }),
  })
  .meta({ id: 'Circuit' })
type ListedCircuit = z.output<typeof ListedCircuit>

export const CircuitList = z.object({
  data: z.array(ListedCircuit),
  openTenants: z
    .int()
    .meta({ description: `Number of tenants with a circuit that is not closed; \`data\` has at most ${MAX_TENANTS}` }),
  source: z.enum(['store', 'process']).meta({
    description: '`process`: the store is unavailable, and the circuits are those of the process that responds',
  }),
})
export type CircuitList = z.output<typeof CircuitList>

interface Options {
  readonly placements: readonly string[]
  readonly rule: CircuitRule
  readonly nowMs: number
}

/** Servers in their order, then the open circuits of tenants, the longest open first. */
export function listCircuits(
  openings: readonly ReceivedChange[],
  { placements, rule, nowMs }: Options,
): Omit<CircuitList, 'source'> {
  const open = openings.flatMap(({ key, opening }) => {
    if (!opening) return []
    const openedAtMs = Math.min(opening.openedAt, nowMs)
    const state: CircuitState = stateSince(openedAtMs, nowMs, rule)
    if (state === 'CLOSED') return []
    const one: ListedCircuit = {
      kind: key.kind,
      placement: opening.placement,
      tenantId: key.kind === 'tenant' ? key.name : null,
      state,
      openedAt: new Date(openedAtMs).toISOString(),
      nextProbeAt: new Date(openedAtMs + rule.halfOpenAfterSeconds * 1_000).toISOString(),
    }
    return [one]
  })
  const servers = placements.map(
    (placement) => open.find((one) => one.kind === 'server' && one.placement === placement) ?? closedServer(placement),
  )
  const tenants = open
    .filter(({ kind }) => kind === 'tenant')
    .sort((a, b) => (`${a.openedAt} ${a.tenantId}` < `${b.openedAt} ${b.tenantId}` ? -1 : 1))
  return { data: [...servers, ...tenants.slice(0, MAX_TENANTS)], openTenants: tenants.length }
}

const closedServer = (placement: string): ListedCircuit => ({
  kind: 'server',
  placement,
  tenantId: null,
  state: 'CLOSED',
  openedAt: null,
  nextProbeAt: null,
})
