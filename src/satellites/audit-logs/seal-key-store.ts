/**
 * The key of all seals. It is made once, and kept under the application key: an application key that changes leaves the seals as they are.
 * It has a connection of its own: the first change of a process asks for it, in the middle of a transaction.
 *
 * What was recorded before there were seals has no HMAC. It is taken as it is found, until all of it is sealed; that this is over is
 * kept with the key, so that nobody can begin it anew.
 */
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import type { Database } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { sealsMac } from './chain.ts'
import { type MacKey, macKey } from './mac.ts'

const KEY_BYTES = 32
/** What the key is bound to where it is kept. */
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

  /** Makes it if there is none. Throws when its application key is not configured, or when somebody has altered it. */
  key(): Promise<MacKey> {
    this.#key ??= this.#made().catch((error) => {
      this.#key = undefined
      throw error
    })
    return this.#key
  }

  /** Whether what has no HMAC was never recorded by us. */
  async isBackfillDone(): Promise<boolean> {
    return (await this.#secret()) === undefined || (await this.#read()).isAdopted
  }

  /** From now on nothing is sealed without. Where somebody seals the secret under another application key meanwhile, that is read anew. */
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

  /** What the doctor asks of it. */
  async state(): Promise<{ isCurrent: boolean; canDecrypt: boolean }> {
    const { secrets } = this.#kernel
    const secret = await this.#secret()
    if (secret === undefined) return { isCurrent: true, canDecrypt: this.#key === undefined } // else it was there
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
        'the key of the audit log is made, and what there is will be sealed as it is found; that is so once, after an upgrade from 0.1.0',
      )
    return keyOf((await this.#read()).key)
  }

  async #read(): Promise<z.output<typeof Kept> & { secret: string }> {
    const secret = await this.#secret()
    if (secret === undefined) throw new Error('the key of the seals is gone')
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
