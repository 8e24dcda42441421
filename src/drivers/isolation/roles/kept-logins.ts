/**
 * Where the passwords of tenants' own logins are kept: sealed, in the backoffice. A process reads all of them with the first, so that the
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
  #sealed: Promise<Map<string, string>> | undefined

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
    const row = { placement: this.#placement, locator, password: this.#seal(locator) }
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
    this.#sealed?.then(
      (sealed) => sealed.delete(locator),
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

  #seal(locator: string): string {
    return this.#secrets.seal(randomToken(), bindingOfOwn(this.#placement, locator))
  }

  async #read(locator: string): Promise<string | undefined> {
    const sealed = await this.#sealedOf(locator).catch((error) => {
      throw isDatabaseUnavailable(error) ? DependencyUnavailable('The backoffice database does not answer.') : error
    })
    return sealed && this.#secrets.open(sealed, bindingOfOwn(this.#placement, locator))
  }

  async #sealedOf(locator: string): Promise<string | undefined> {
    this.#sealed ??= this.#readAll().catch((error) => {
      this.#sealed = undefined
      throw error
    })
    return (await this.#sealed).get(locator) ?? (await this.#rows(locator))[0]?.password
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
