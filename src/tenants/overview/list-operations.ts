/** Operations over all tenants: counts by member, placements of their storage, circuits, and the search of the operator. */
import { z } from 'zod'
import { part } from '../../kernel/part.ts'
import { CircuitList } from '../circuits/circuit-list.ts'
import { PlanResolvedByHost } from '../tenant/errors.ts'
import { COUNTED } from './counts.ts'
import type { Overview } from './overview.ts'
import { Driver, Placement } from './placements.ts'
import { FoundObject } from './search.ts'

const { operation } = part<Overview>()

const By = z
  .string()
  .max(100)
  .transform((text) => text.split(','))
  .pipe(
    z
      .array(z.enum(COUNTED))
      .refine((members) => new Set(members).size === members.length, 'must not contain a member twice'),
  )

export const listOperations = [
  operation({
    name: 'tenants.counts',
    method: 'GET',
    path: '/tenant-counts',
    summary: 'Count tenants by status, plan, isolation driver and placement',
    description:
      'Includes values without tenants. Deleted tenants are counted by status only. The counts are those of `asOf`: each process counts ' +
      'every 10 s while they are requested.',
    query: z.strictObject({
      by: By.optional().meta({
        description: `Members separated by commas, of ${COUNTED.join(', ')}; default: all, without \`plan\` if the host resolves plans`,
        example: 'status,plan',
      }),
    }),
    reply: z.object({
      data: z.array(z.object({ by: z.enum(COUNTED), value: z.string(), count: z.int() }).meta({ id: 'TenantCount' })),
      asOf: z.iso.datetime(),
    }),
    errors: [PlanResolvedByHost],
    command: {
      name: 'tenant:count',
      options: { by: { flags: '--by <members>' } },
      rows: ({ data }) => data,
    },
    handle: ({ counts }, { query }) => counts.get(query.by),
  }),
  operation({
    name: 'placements.list',
    method: 'GET',
    path: '/placements',
    summary: 'List placements with their tenants, connections and circuits, and the isolation drivers',
    description:
      'Connections and circuits are those of the process that responds. The list is complete: it has no pages.',
    reply: z.object({ data: z.array(Placement), drivers: z.array(Driver) }),
    command: {
      name: 'placement:list',
      summary: 'List placements with their tenants, connections and circuits',
      rows: ({ data }) =>
        data.map(({ name, isConfigured, tenants, connections, circuit, lostSince }) => {
          const { used = null, allowed = null } = connections ?? {}
          return { name, isConfigured, tenants, used, allowed, circuit: circuit.state, lostSince }
        }),
    },
    handle: (overview) => overview.placements(),
  }),
  operation({
    name: 'circuits.list',
    method: 'GET',
    path: '/circuits',
    summary: 'List the circuits of all servers, and the open circuits of tenants, over all processes',
    description: 'Servers come first, then tenants, the longest open first. The list has no pages.',
    reply: CircuitList,
    command: {
      name: 'circuit:list',
      message: ({ source }) =>
        source === 'process' ? 'The store is unavailable: these are the circuits of one process.' : undefined,
    },
    handle: ({ services: { circuits } }) => circuits.list(),
  }),
  operation({
    name: 'search.find',
    method: 'GET',
    path: '/search',
    summary: 'Find objects by an id, part of a name or address, or a value of metadata',
    description:
      'Returns at most 20 results: objects with this id or request id, then tenants and webhooks with this part in an id, name, domain or ' +
      'URL, then tenants with this value in their metadata. Each has the operation that reads it; a token finds only what it may read.',
    query: z.strictObject({ q: z.string().trim().min(1).max(200).meta({ description: 'The term', example: 'acme' }) }),
    reply: z.object({
      data: z.array(FoundObject),
      late: z.array(z.string()).meta({
        description: 'Names of search providers without a result within 200 ms; the results of others are complete',
      }),
    }),
    command: {
      name: 'search',
      arguments: { q: { name: 'term', summary: 'id, part of a name, domain or URL, or a value of metadata' } },
      rows: ({ data }) =>
        data.map(({ kind, id, tenantId, title, matched }) => {
          return { kind, id, tenantId, title, matched }
        }),
      message: ({ late }) => (late.length > 0 ? `No result within 200 ms from ${late.join(', ')}.` : undefined),
    },
    handle: (overview, { query }) => overview.search(query.q),
  }),
]
