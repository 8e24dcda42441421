/**
 * What processes tell one another of their circuits. An open one is a record in the store (a tenant's under its own name, a
 * server's under the service's) with an expiry, so it outlives a restart; every change is also a notification, so that
 * others need not run into the same failures. Who may probe takes a lease in the store.
 *
 * Nothing here throws, and nothing waits long: with the store away each process has its own circuits. What
 * could not be written is written with the next change: as long as somebody asks, that is after the next probe.
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
/** After a failure, callers do not wait for the store again before this. */
const STORE_PAUSE_MS = 5_000

export interface CircuitKey {
  readonly kind: 'tenant' | 'server'
  /** The tenant's id, the placement's name. */
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

/** What is signed: SQL of a tenant may send to the channel, and could open the circuit of another. */
const signed = ({ from, kind, name, opening }: Omit<Message, 'signature'>): string =>
  JSON.stringify([from, kind, name, opening && [opening.openedAt, opening.placement]])

export interface ReceivedChange {
  readonly key: CircuitKey
  /** Null: it is closed. */
  readonly opening: Opening | null
}

export class CircuitRecords {
  readonly #kernel: Pick<Kernel, 'store' | 'database' | 'secrets' | 'resilience' | 'log'>
  readonly #rule: CircuitRule
  readonly #id = randomUUID()
  /** Changes are written outside of whatever transaction a call that failed was in. */
  readonly #outside = AsyncLocalStorage.snapshot()
  readonly #writing = new Map<string, Promise<void>>()
  #listening: Listening | undefined
  #pausedUntilMs = 0
  #failure: unknown

  constructor(kernel: Pick<Kernel, 'store' | 'database' | 'secrets' | 'resilience' | 'log'>, rule: CircuitRule) {
    this.#kernel = kernel
    this.#rule = rule
  }

  /** @param onGap what others said may have been missed. */
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

  /** One change of a circuit after another; `opening` is asked when it is written, so the last one stays. */
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

  /** Null when there is none; undefined when the store cannot say. */
  async opening(key: CircuitKey): Promise<Opening | null | undefined> {
    if (this.#isPaused) return this.#without()
    return this.#request(async () => this.#parsed(await this.#kernel.store.get(...at(key))))
  }

  /** Every open circuit of tenants and of these servers; undefined when the store cannot say. */
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

  /** Of all processes one may probe; the lease goes with its time. Without a store each has its own. */
  async lease(key: CircuitKey): Promise<boolean> {
    const { store } = this.#kernel
    const isMine = this.#isPaused
      ? this.#without()
      : await this.#request(() => store.setIfAbsent(...leaseAt(key), this.#id, this.#rule.halfOpenAfterSeconds))
    return isMine ?? true
  }

  /** Gives the lease back before its time: the probe told nothing. */
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
      log.warn({ err: error, circuit: key.name }, 'other processes could not be told of a circuit')
    }
  }

  /** What is there and cannot be read is as good as nothing; the log says so. */
  #parsed(value: string | null): Opening | null {
    if (value === null) return null
    try {
      return Opening.parse(JSON.parse(value))
    } catch (error) {
      this.#kernel.log.warn({ err: error }, 'what the store keeps of a circuit cannot be read')
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

  /** The circuits go on without the store. */
  #without(): undefined {
    const degradation = {
      dependency: 'redis', // the store's name in policies, whichever driver
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

const late = () => DependencyUnavailable('no answer in time')
