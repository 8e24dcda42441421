/**
 * Stores the key of all seals, encrypted with the application key. A rotation of the application key keeps the seals.
 *
 * - It uses a separate connection, because the first change of a process needs the key inside a transaction.
 * - Entries from before the first key have no HMAC. They are sealed as they are found until the backfill is complete. The encrypted secret
 *   records its completion, so it cannot be repeated.
 */
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { withoutDeadline } from '../../kernel/base/deadline.ts'
import type { Database } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { sealsMac } from './chain.ts'
import { type MacKey, macKey } from './mac.ts'

const KEY_BYTES = 32
/** Context that the encrypted key is bound to. */
export const BINDING = 'audit_state:secret'

const Kept = z.strictObject({ key: z.base64(), isAdopted: z.boolean() })

export class SealKeyStore {
  readonly #kernel: Kernel
  readonly #own: Database
  #key: Promise<MacKey> | undefined

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.#own = kernel.database.apart(1)
  }

  /** Generates the key if there is none. Throws if its application key is not configured, or if the stored key was altered. */
  key(): Promise<MacKey> {
    this.#key ??= withoutDeadline(() => this.#made()).catch((error) => {
      this.#key = undefined
      throw error
    })
    return this.#key
  }

  /** Whether entries without an HMAC are false entries. */
  async isBackfillDone(): Promise<boolean> {
    return (await this.#secret()) === undefined || (await this.#read()).isAdopted
  }

  /** From now on, entries without an HMAC are not sealed. Retries after a concurrent re-encryption. */
  async completeBackfill(): Promise<void> {
    for (let isKept = false; !isKept; ) {
      const { secret, ...kept } = await this.#read()
      const { rows } = await this.#own.sql(
        'update multitenancy.audit_state set secret = $1 where secret = $2 returning true',
        [this.#sealed({ ...kept, isAdopted: true }), secret],
      )
      isKept = rows.length > 0
    }
  }

  /** For the doctor. */
  async state(): Promise<{ isCurrent: boolean; canDecrypt: boolean }> {
    const { secrets } = this.#kernel
    const secret = await this.#secret()
    if (secret === undefined) return { isCurrent: true, canDecrypt: this.#key === undefined } // the key is missing although it was loaded before
    try {
      secrets.decrypt(secret, BINDING)
      return { isCurrent: secrets.isCurrent(secret), canDecrypt: true }
    } catch {
      return { isCurrent: false, canDecrypt: false }
    }
  }

  async #made(): Promise<MacKey> {
    const key = randomBytes(KEY_BYTES).toString('base64')
    const { rows } = await this.#own.sql(
      `insert into multitenancy.audit_state (secret, seals, seals_mac) values ($1, 0, $2) on conflict do nothing
       returning exists (select from multitenancy.audit_entries) as "isBehind"`,
      [this.#sealed({ key, isAdopted: false }), sealsMac(keyOf(key), 0)],
    )
    if (rows[0]?.isBehind)
      this.#kernel.log.warn(
        'the key of the audit log was generated; existing entries are sealed as they are found, once, after an upgrade from 0.1.0',
      )
    return keyOf((await this.#read()).key)
  }

  async #read(): Promise<z.output<typeof Kept> & { secret: string }> {
    const secret = await this.#secret()
    if (secret === undefined) throw new Error('the seal key is missing')
    return { secret, ...Kept.parse(JSON.parse(this.#kernel.secrets.decrypt(secret, BINDING))) }
  }

  async #secret(): Promise<string | undefined> {
    const { rows } = await this.#own.sql('select secret from multitenancy.audit_state')
    return rows[0]?.secret
  }

  #sealed(kept: z.output<typeof Kept>): string {
    return this.#kernel.secrets.encrypt(JSON.stringify(kept), BINDING)
  }
}

const keyOf = (base64: string): MacKey => macKey(Buffer.from(base64, 'base64'))
