/** The PostgreSQL drivers as the proof of isolation takes them: on an installation of their own, with few connections. */
import type { IsolationDriver, Place } from '../../tenants/isolation.ts'
import type { StorageView, Subject } from '../../testing/isolation-subject.ts'
import { createInstallation, type Installation } from './installation.fixture.ts'
import { ROWS_SCHEMA, rowscopePg } from './rowscope-pg.ts'
import { schemaPg } from './schema-pg.ts'

/** Fewer than those who ask: connections go from one tenant to the next. */
export const CONNECTIONS = 3
const WAIT_MS = 60_000

interface Kind {
  readonly make: () => IsolationDriver
  readonly viewOf: (place: Place, installation: Installation, tenantUrl: string) => StorageView
}

const ofSchema: Kind['viewOf'] = ({ locator }, { url }, tenantUrl) => ({ url, tenantUrl, schema: locator })
const ofRows: Kind['viewOf'] = ({ locator }, { url }, tenantUrl) => ({
  url,
  tenantUrl,
  schema: ROWS_SCHEMA,
  tenantColumn: locator,
})

/** Each driver in each of its manners. */
export const KINDS: Readonly<Record<string, Kind>> = {
  'schema-pg, batch': { make: () => schemaPg(), viewOf: ofSchema },
  'schema-pg, transaction': { make: () => schemaPg({ scope: 'transaction' }), viewOf: ofSchema },
  'schema-pg, qualified': { make: () => schemaPg({ names: 'qualified' }), viewOf: ofSchema },
  'rowscope-pg, batch': { make: () => rowscopePg(), viewOf: ofRows },
  'rowscope-pg, transaction': { make: () => rowscopePg({ scope: 'transaction' }), viewOf: ofRows },
}

/** @param kind one of `KINDS` */
export async function openSubject(serverUrl: string, kind: string): Promise<Subject> {
  const { make, viewOf } = KINDS[kind] ?? unknownKind(kind)
  const installation = await createInstallation(serverUrl, {
    connections: { max: CONNECTIONS, perTenant: CONNECTIONS, waitMs: WAIT_MS, queuePerTenant: 1_000 },
  })
  const placement = await installation.prepare()
  return {
    placement: placement.name,
    maxConnections: CONNECTIONS,
    open: (migrations) => installation.open(placement, { driver: make, migrations }),
    viewOf: (place) => viewOf(place, installation, placement.tenantUrl),
    close: () => installation.end(),
  }
}

const unknownKind = (kind: string): never => {
  throw new Error(`"${kind}" is not one of ${Object.keys(KINDS).join(', ')}`)
}
