/**
 * Shares the state of circuits between processes. An open circuit is a record with an expiry in the store (of the
 * tenant, or of the service for a server), so it survives a restart. Each change is also a notification, so that other
 * processes do not repeat the failures. A probe requires a lease in the store.
 *
 * No method throws or waits for long: with the store unavailable, each process has its own circuits. A failed write is
 * repeated with the next change; with calls in progress, that is after the next probe.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import type { Listening } from '../../kernel/database/notifications.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { type CircuitRule, keptSeconds } from '../../kernel/resilience/circuit.ts'
import { codeOf } from '../../kernel/resilience/resilience.ts'
import type { Owner } from '../../kernel/store/store.ts'

const CHANNEL = 'multitenancy_circuits'
const STORE_TIMEOUT_MS = 2_000
/** Time after a failure during which callers do not wait for the store. */
const STORE_PAUSE_MS = 5_000

export interface CircuitKey {
  readonly kind: 'tenant' | 'server'
  /** The tenant's id, or the placement's name. */
  readonly name: string
}

const Opening = z.object({ openedAt: z.number(), placement: z.string() })
export type Opening = z.output<typeof Opening>

const Message = z.object({
  from: z.string(),
  kind: z.enum(['tenant', 'server']),
  name: z.string(),
  opening: Opening.nullable(),
  signature: z.string(),
})
type Message = z.output<typeof Message>

/** The signed content. SQL of a tenant can send to the channel, and could otherwise open the circuit of another. */
const signed = ({ from, kind, name, opening }: Omit<Message, 'signature'>): string =>
  JSON.stringify([from, kind, name, opening && [opening.openedAt, opening.placement]])

export interface ReceivedChange {
  readonly key: CircuitKey
  /** Null: closed. */
  readonly opening: Opening | null
}

export class CircuitRecords {
  readonly #kernel: Pick<Kernel, 'store' | 'database' | 'secrets' | 'resilience' | 'log'>
  readonly #rule: CircuitRule
  readonly #id = randomUUID()
  /** Writes changes outside of the transaction of the failed call. */
  readonly #outside = AsyncLocalStorage.snapshot()
  readonly #writing = new Map<string, Promise<void>>()
  #listening: Listening | undefined
  #pausedUntilMs = 0
  #failure: unknown

  constructor(kernel: Pick<Kernel, 'store' | 'database' | 'secrets' | 'resilience' | 'log'>, rule: CircuitRule) {
    this.#kernel = kernel
    this.#rule = rule
  }

  /** @param onGap called when changes of other processes may have been missed */
  async start(onChange: (received: ReceivedChange) => void, onGap: () => void): Promise<void> {
    const hear = (payload: string) => {
      const message = Message.parse(JSON.parse(payload))
      if (!this.#kernel.secrets.verify(signed(message), CHANNEL, message.signature)) return
      if (message.from !== this.#id) onChange({ key: message, opening: message.opening })
    }
    this.#listening = await this.#kernel.database.listen(CHANNEL, hear, onGap)
  }

  async stop(): Promise<void> {
    await this.#listening?.close()
    await Promise.all(this.#writing.values())
  }

  /** Serializes the writes of a circuit. `opening` is called at the write, so the last state is stored. */
  write(key: CircuitKey, opening: () => Opening | null): void {
    const id = `${key.kind} ${key.name}`
    const before = this.#writing.get(id) ?? Promise.resolve()
    const written = before
      .then(() => this.#outside(() => this.#put(key, opening())))
      .finally(() => {
        if (this.#writing.get(id) === written) this.#writing.delete(id)
      })
    this.#writing.set(id, written)
  }

  /** Null if the circuit is closed; undefined if the store is unavailable. */
  async opening(key: CircuitKey): Promise<Opening | null | undefined> {
    if (this.#isPaused) return this.#without()
    return this.#request(async () => this.#parsed(await this.#kernel.store.get(...at(key))))
  }

  /** All open circuits of tenants and of these servers; undefined if the store is unavailable. */
  openings(placements: readonly string[]): Promise<ReceivedChange[] | undefined> {
    const { store } = this.#kernel
    return this.#request(async () => {
      const tenants = (await store.list('circuit')).map(
        ({ tenantId, value }) => [{ kind: 'tenant', name: tenantId }, value] as const,
      )
      const servers = await Promise.all(
        placements.map(async (name) => {
          const key = { kind: 'server', name } as const
          return [key, await store.get(...at(key))] as const
        }),
      )
      return [...servers, ...tenants].map(([key, value]) => ({ key, opening: this.#parsed(value) }))
    })
  }

  /**
   * Returns whether this process can probe. One process holds the lease until it expires. Without a store, each process
   * can.
   */
  async lease(key: CircuitKey): Promise<boolean> {
    const { store } = this.#kernel
    const isMine = this.#isPaused
      ? this.#without()
      : await this.#request(() => store.setIfAbsent(...leaseAt(key), this.#id, this.#rule.halfOpenAfterSeconds))
    return isMine ?? true
  }

  /** Releases the lease early, after a probe without an outcome. */
  async release(key: CircuitKey): Promise<void> {
    if (this.#isPaused) this.#without()
    else await this.#request(() => this.#kernel.store.delete(...leaseAt(key)))
  }

  get #isPaused(): boolean {
    return performance.now() < this.#pausedUntilMs
  }

  async #put(key: CircuitKey, opening: Opening | null): Promise<void> {
    const { store, database, secrets, log } = this.#kernel
    await this.#request(() =>
      opening ? store.set(...at(key), JSON.stringify(opening), keptSeconds(this.#rule)) : store.delete(...at(key)),
    )
    const message = { from: this.#id, ...key, opening }
    const signature = secrets.sign(signed(message), CHANNEL)
    try {
      await withTimeout(database.notify(CHANNEL, JSON.stringify({ ...message, signature })), STORE_TIMEOUT_MS, late)
    } catch (error) {
      log.warn({ err: error, circuit: key.name }, 'could not notify other processes of a circuit')
    }
  }

  /** Ignores and logs an invalid record. */
  #parsed(value: string | null): Opening | null {
    if (value === null) return null
    try {
      return Opening.parse(JSON.parse(value))
    } catch (error) {
      this.#kernel.log.warn({ err: error }, 'invalid record of a circuit in the store')
      return null
    }
  }

  async #request<T>(request: () => Promise<T>): Promise<T | undefined> {
    try {
      const result = await withTimeout(request(), STORE_TIMEOUT_MS, late)
      this.#pausedUntilMs = 0
      return result
    } catch (error) {
      this.#pausedUntilMs = performance.now() + STORE_PAUSE_MS
      this.#failure = error
      return this.#without()
    }
  }

  /** Continues without the store. */
  #without(): undefined {
    const degradation = {
      dependency: 'redis', // the store's name in policies, for every driver
      operation: 'circuit.persist',
      tenantId: null,
      policy: 'fail-open',
      errorCode: codeOf(this.#failure),
    } as const
    this.#outside(() => this.#kernel.resilience.report(degradation, this.#failure))
  }
}

const at = ({ kind, name }: CircuitKey): [Owner, string] =>
  kind === 'tenant' ? [name, 'circuit'] : [null, `circuit:${name}`]

const leaseAt = ({ kind, name }: CircuitKey): [Owner, string] =>
  kind === 'tenant' ? [name, 'circuit-probe'] : [null, `circuit-probe:${name}`]

const late = () => DependencyUnavailable('the store timed out')
