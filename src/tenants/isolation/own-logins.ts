import type { EncryptedColumn } from '../../kernel/database/re-encrypt.ts'

const TABLE = 'tenant_logins'

/** What the password of a login is bound to. */
export const bindingOfOwn = (placement: string, database: string): string => `${TABLE} ${placement} ${database}`

/** What is encrypted again after a change of the application key. */
export const ENCRYPTED_LOGINS: EncryptedColumn = {
  table: TABLE,
  key: `(placement || ' ' || locator)`,
  column: 'password',
  binding: (key) => `${TABLE} ${key}`,
  about: {
    whose: 'of logins of tenants',
    lost: 'delete those rows of multitenancy.tenant_logins, then: tenantry doctor --prove --fix',
  },
}

/**
 * Logins that belong to one tenant's database each, on one placement. A login has the name of its database; its password is kept encrypted
 * in the backoffice.
 */
export interface OwnLogins {
  /** Whether a new database gets one; false where `tenantUrl` is given or a pooler stands between. */
  readonly areMade: boolean
  /** Undefined for a database whose tenant uses the login of the placement. Known after the first time. */
  passwordOf(database: string): Promise<string | undefined>
  /** The password that is kept for a database, and was made now when there was none. It stays, whatever becomes of a transaction. */
  keep(database: string): Promise<string>
  /** Databases with a login of their own. */
  all(): Promise<ReadonlySet<string>>
  /** To be read again with its next use: the server refused it. */
  forget(database: string): void
  remove(database: string): Promise<void>
}

/** The server refuses the login of one tenant, which is no word about the server. */
export class OwnLoginRejected extends Error {
  constructor(cause: unknown) {
    super('the server refuses the login of this tenant', { cause })
  }
}
