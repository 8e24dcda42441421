import type { EncryptedColumn } from '../../kernel/database/re-encrypt.ts'

const TABLE = 'tenant_logins'

/** The encryption binding of the password of a placement's login. */
export const bindingOfPlacement = (placement: string): string => `placement_logins ${placement}`

/** Every start decrypts these passwords, and encrypts them again after a change of the application key. */
export const PLACEMENT_PASSWORDS: EncryptedColumn = {
  table: 'placement_logins',
  key: 'placement',
  column: 'password',
  binding: bindingOfPlacement,
}

/** The encryption binding of a login's password. */
export const bindingOfOwn = (placement: string, database: string): string => `${TABLE} ${placement} ${database}`

/** Encrypted again after a change of the application key. */
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
 * Logins that belong to one tenant's database each, on one placement. A login has the name of its database; its
 * password is stored encrypted in the backoffice.
 */
export interface OwnLogins {
  /** Whether new databases get a login; false with a configured `tenantUrl` or a pooler. */
  readonly areMade: boolean
  /** Undefined for a database whose tenant uses the login of the placement. Cached after the first call. */
  passwordOf(database: string): Promise<string | undefined>
  /**
   * Returns the stored password of a database, or creates one. It is stored even if the current transaction rolls back.
   */
  keep(database: string): Promise<string>
  /** Databases with their own login. */
  all(): Promise<ReadonlySet<string>>
  /** Drops the cached password after the server has rejected it. */
  forget(database: string): void
  remove(database: string): Promise<void>
}

/** The server rejects the login of one tenant, which proves nothing about the server. */
export class OwnLoginRejected extends Error {
  constructor(cause: unknown) {
    super('the server rejects the login of the tenant', { cause })
  }
}
