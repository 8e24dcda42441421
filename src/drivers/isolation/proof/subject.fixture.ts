/** Opens drivers for the proof of isolation, each on a separate installation with few connections. */
import type { ConnectionLimits, IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import type { OwnLogins } from '../../../tenants/isolation/own-logins.ts'
import type { StorageView, Subject } from '../../../testing/base/subject.ts'
import { databasePg, TENANT_SCHEMA } from '../database-pg.ts'
import { createInstallation, type Installation } from '../roles/installation.fixture.ts'
import { withDatabase, withLogin } from '../roles/login-clients.ts'
import { ROWS_SCHEMA, rowscopePg } from '../rowscope-pg.ts'
import { schemaPg } from '../schema-pg.ts'
import { sqliteMemory } from '../sqlite/driver.ts'

/** Fewer connections than concurrent callers, so that tenants share them. */
export const CONNECTIONS = 3
const WAIT_MS = 60_000

type Look = (
  location: StorageLocation,
  installation: Installation,
  tenantUrl: string,
  passwords: ReadonlyMap<string, string>,
) => StorageView

interface Kind {
  readonly engine: IsolationDriver['capabilities']['engine']
  readonly make: () => IsolationDriver
  /** Absent for a driver without a server. */
  readonly look?: Look
}

const ofSchema: Look = ({ locator }, { url }, tenantUrl) => ({ url, tenantUrl, schema: locator })
const ofRows: Look = ({ locator }, { url }, tenantUrl) => ({
  url,
  tenantUrl,
  schema: ROWS_SCHEMA,
  tenantColumn: locator,
})

const ofDatabase: Look = ({ locator }, { url }, tenantUrl, passwords) => {
  const password = passwords.get(locator)
  const login = password === undefined ? tenantUrl : withLogin(tenantUrl, locator, password)
  return { url: withDatabase(url, locator), tenantUrl: withDatabase(login, locator), schema: TENANT_SCHEMA }
}

/** Each driver in each of its modes. */
export const KINDS: Readonly<Record<string, Kind>> = {
  'schema-pg, batch': { engine: 'postgres', make: () => schemaPg(), look: ofSchema },
  'schema-pg, transaction': { engine: 'postgres', make: () => schemaPg({ scope: 'transaction' }), look: ofSchema },
  'schema-pg, qualified': { engine: 'postgres', make: () => schemaPg({ names: 'qualified' }), look: ofSchema },
  'rowscope-pg, batch': { engine: 'postgres', make: () => rowscopePg(), look: ofRows },
  'rowscope-pg, transaction': { engine: 'postgres', make: () => rowscopePg({ scope: 'transaction' }), look: ofRows },
  'database-pg, batch': { engine: 'postgres', make: () => databasePg(), look: ofDatabase },
  'database-pg, transaction': {
    engine: 'postgres',
    make: () => databasePg({ scope: 'transaction' }),
    look: ofDatabase,
  },
  'sqlite-memory': { engine: 'sqlite', make: () => sqliteMemory() },
}

/** Each driver once, for the fast tier. */
export const FAST_KINDS = ['schema-pg, batch', 'rowscope-pg, batch', 'database-pg, batch', 'sqlite-memory']
export const SLOW_KINDS = Object.keys(KINDS).filter((kind) => !FAST_KINDS.includes(kind))

export interface SubjectOptions {
  /** Returns another URL of the server for tenants' queries. */
  readonly way?: (tenantUrl: string) => string
  readonly limits?: Partial<ConnectionLimits>
  /** Whether tenants with a database each share one login; default false. */
  readonly sharesLogin?: boolean
}

/** @param kind one of `KINDS` */
export async function openSubject(
  serverUrl: string,
  kind: string,
  { way = (url) => url, limits, sharesLogin = false }: SubjectOptions = {},
): Promise<Subject> {
  const { engine, make, look } = KINDS[kind] ?? unknownKind(kind)
  const connections = { max: CONNECTIONS, perTenant: CONNECTIONS, waitMs: WAIT_MS, queuePerTenant: 1_000, ...limits }
  // Tenants may create temporary tables, so that the proof covers their effect on the next tenant.
  const installation = await createInstallation(serverUrl, { connections, publicRights: ['temporary'] })
  const { tenantUrl, ...prepared } = await installation.prepare()
  const passwords = new Map<string, string>()
  const placement = {
    ...prepared,
    tenantUrl: way(tenantUrl),
    ownLogins: prepared.ownLogins && !sharesLogin ? recordPasswords(prepared.ownLogins, passwords) : undefined,
  }
  return {
    placement: placement.name,
    maxConnections: engine === 'postgres' ? CONNECTIONS : 1,
    open: (migrations) => installation.open(placement, { driver: make, migrations }),
    viewOf: look && ((location) => look(location, installation, tenantUrl, passwords)),
    close: () => installation.end(),
  }
}

/** Records the passwords of tenants' own logins when they are read. */
const recordPasswords = (logins: OwnLogins, passwords: Map<string, string>): OwnLogins => ({
  areMade: logins.areMade,
  async passwordOf(database) {
    const password = await logins.passwordOf(database)
    if (password !== undefined) passwords.set(database, password)
    return password
  },
  async keep(database) {
    const password = await logins.keep(database)
    passwords.set(database, password)
    return password
  },
  all: () => logins.all(),
  forget: (database) => logins.forget(database),
  remove: (database) => logins.remove(database),
})

const unknownKind = (kind: string): never => {
  throw new Error(`"${kind}" is not one of ${Object.keys(KINDS).join(', ')}`)
}
