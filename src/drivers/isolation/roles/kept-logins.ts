/**
 * Where the passwords of tenants' own logins are kept: encrypted, in the backoffice. A process reads all of them with the first, so that the
 * first query of a tenant asks for none; those of tenants that came later it reads one by one.
 */

import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { randomToken, type Secrets } from '../../../kernel/crypto/crypto.ts'
import { type Database, isDatabaseUnavailable } from '../../../kernel/database/database.ts'
import { bindingOfOwn, type OwnLogins } from '../../../tenants/isolation/own-logins.ts'
import type { TenantTables } from '../../../tenants/tenant/tables.ts'

/** At most so many are read together. */
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

  /** Throws `E_DEPENDENCY_UNAVAILABLE` when the backoffice does not answer: that is no word about the server of the tenant. */
  passwordOf(locator: string): Promise<string | undefined> {
    const known = this.#known.get(locator)
    if (known) return known
    const reading = this.#read(locator)
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
    if (password === undefined) throw new Error(`the login of "${locator}" was removed meanwhile`)
    return password
  }

  /** Databases with a login of their own. */
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
      throw isDatabaseUnavailable(error) ? DependencyUnavailable('The backoffice database does not answer.') : error
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
