/**
 * Stores the passwords of tenants' own logins, encrypted in the backoffice. A process reads all passwords at the first
 * use, so that the first query of a tenant needs no read; passwords of later tenants are read one by one.
 */

import { withoutDeadline } from '../../../kernel/base/deadline.ts'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { randomToken, type Secrets } from '../../../kernel/crypto/crypto.ts'
import { type Database, isDatabaseUnavailable } from '../../../kernel/database/database.ts'
import { bindingOfOwn, type OwnLogins } from '../../../tenants/isolation/own-logins.ts'
import type { TenantTables } from '../../../tenants/tenant/tables.ts'

/** Maximum number of passwords that are read together. */
const READ_TOGETHER = 20_000

export class KeptLogins implements OwnLogins {
  readonly areMade: boolean
  readonly #placement: string
  readonly #database: Database
  readonly #secrets: Secrets
  readonly #known = new Map<string, Promise<string | undefined>>()
  #encrypted: Promise<Map<string, string>> | undefined

  constructor(placement: string, database: Database, secrets: Secrets, areMade: boolean) {
    this.#placement = placement
    this.#database = database
    this.#secrets = secrets
    this.areMade = areMade
  }

  /**
   * Throws `E_DEPENDENCY_UNAVAILABLE` if the backoffice does not respond, which is unrelated to the server of the
   * tenant.
   */
  passwordOf(locator: string): Promise<string | undefined> {
    const known = this.#known.get(locator)
    if (known) return known
    const reading = withoutDeadline(() => this.#read(locator))
    this.#known.set(locator, reading)
    const forget = () => void (this.#known.get(locator) === reading && this.#known.delete(locator))
    reading.then((password) => password ?? forget(), forget)
    return reading
  }

  async keep(locator: string): Promise<string> {
    const row = { placement: this.#placement, locator, password: this.#newPassword(locator) }
    await this.#database.outside(() =>
      this.#query()
        .insertInto('tenantLogins')
        .values(row)
        .onConflict((conflict) => conflict.columns(['placement', 'locator']).doNothing())
        .execute(),
    )
    this.forget(locator)
    const password = await this.passwordOf(locator)
    if (password === undefined) throw new Error(`The login of "${locator}" was removed concurrently`)
    return password
  }

  /** Names of databases with their own login. */
  async all(): Promise<ReadonlySet<string>> {
    const rows = await this.#query()
      .selectFrom('tenantLogins')
      .select('locator')
      .where('placement', '=', this.#placement)
      .execute()
    return new Set(rows.map(({ locator }) => locator))
  }

  forget(locator: string): void {
    this.#known.delete(locator)
    this.#encrypted?.then(
      (encrypted) => encrypted.delete(locator),
      () => undefined,
    )
  }

  async remove(locator: string): Promise<void> {
    await this.#database.outside(() =>
      this.#query()
        .deleteFrom('tenantLogins')
        .where('placement', '=', this.#placement)
        .where('locator', '=', locator)
        .execute(),
    )
    this.forget(locator)
  }

  #query() {
    return this.#database.query<TenantTables>()
  }

  #newPassword(locator: string): string {
    return this.#secrets.encrypt(randomToken(), bindingOfOwn(this.#placement, locator))
  }

  async #read(locator: string): Promise<string | undefined> {
    const encrypted = await this.#encryptedOf(locator).catch((error) => {
      throw isDatabaseUnavailable(error)
        ? DependencyUnavailable('The backoffice database does not respond.', { cause: error })
        : error
    })
    return encrypted && this.#secrets.decrypt(encrypted, bindingOfOwn(this.#placement, locator))
  }

  async #encryptedOf(locator: string): Promise<string | undefined> {
    this.#encrypted ??= this.#readAll().catch((error) => {
      this.#encrypted = undefined
      throw error
    })
    return (await this.#encrypted).get(locator) ?? (await this.#rows(locator))[0]?.password
  }

  async #readAll(): Promise<Map<string, string>> {
    const rows = await this.#rows()
    return new Map(rows.map(({ locator, password }) => [locator, password]))
  }

  #rows(locator?: string): Promise<{ locator: string; password: string }[]> {
    return this.#database.outside(() => {
      const all = this.#query()
        .selectFrom('tenantLogins')
        .select(['locator', 'password'])
        .where('placement', '=', this.#placement)
      return (locator === undefined ? all.limit(READ_TOGETHER) : all.where('locator', '=', locator)).execute()
    })
  }
}
