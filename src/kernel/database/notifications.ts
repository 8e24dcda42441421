/**
 * Receives notifications of all channels on one connection per process, and reconnects automatically. After each connection it calls
 * `onGap` of every listener, because earlier notifications are lost. Only `#connect` connects: two connections would deliver twice.
 */
import pg from 'pg'
import type { Logger } from '../base/logger.ts'

const FIRST_DELAY_MS = 100
const LONGEST_DELAY_MS = 2_000
/** With its time-out: how long a silent connection passes for one that hears. */
const HEARTBEAT_MS = 2_000

export interface Listening {
  close(): Promise<void>
}

interface Listener {
  readonly channel: string
  readonly onMessage: (payload: string) => void
  readonly onGap: () => void
}

export class Notifications {
  readonly #url: string
  readonly #log: Logger
  readonly #onLost: (error: unknown) => void
  readonly #listeners = new Set<Listener>()
  #client: pg.Client | undefined
  #connecting: Promise<pg.Client> | undefined
  #lastQuery: Promise<unknown> = Promise.resolve()
  #retry: NodeJS.Timeout | undefined
  #heartbeat: NodeJS.Timeout | undefined
  #delayMs = FIRST_DELAY_MS
  #lostAt = 0
  #closed = false

  constructor(url: string, log: Logger, onLost: (error: unknown) => void) {
    this.#url = url
    this.#log = log
    this.#onLost = onLost
  }

  get isConnected(): boolean {
    return this.#client !== undefined
  }

  /** When the connection was last lost, by `performance.now()`; 0 if it never was. */
  get lostAt(): number {
    return this.#lostAt
  }

  /** Throws if the connection cannot be opened; the listener is then not registered. */
  async listen(channel: string, onMessage: (payload: string) => void, onGap: () => void): Promise<Listening> {
    const listener = { channel, onMessage, onGap }
    this.#listeners.add(listener)
    try {
      const client = this.#client ?? (await this.#connect())
      await this.#listenTo(client, channel)
    } catch (error) {
      this.#listeners.delete(listener)
      throw error
    }
    return {
      close: async () => {
        this.#listeners.delete(listener)
      },
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    clearTimeout(this.#retry)
    clearInterval(this.#heartbeat)
    await this.#connecting?.catch(() => undefined)
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => undefined)
  }

  #connect(): Promise<pg.Client> {
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  async #open(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: 'tenantry listener',
      keepAlive: true,
      connectionTimeoutMillis: 5_000,
      query_timeout: HEARTBEAT_MS,
    })
    client.on('error', (error) => this.#lost(client, error))
    client.on('end', () => this.#lost(client))
    client.on('notification', ({ channel, payload = '' }) => this.#deliver(channel, payload))
    try {
      await client.connect()
      for (const channel of new Set([...this.#listeners].map((listener) => listener.channel))) {
        await this.#listenTo(client, channel)
      }
      if (this.#closed) throw new Error('closed while it was connecting')
    } catch (error) {
      client.end().catch(() => undefined)
      this.#onLost(error)
      throw error
    }
    this.#client = client
    this.#delayMs = FIRST_DELAY_MS
    this.#heartbeat = setInterval(
      () => this.#query(client, 'select 1').catch((error) => this.#lost(client, error)),
      HEARTBEAT_MS,
    )
    this.#heartbeat.unref()
    for (const { channel, onGap } of this.#listeners) this.#notify(channel, onGap)
    return client
  }

  /** Idempotent for a channel of this connection. */
  #listenTo(client: pg.Client, channel: string): Promise<unknown> {
    return this.#query(client, `listen ${pg.escapeIdentifier(channel)}`)
  }

  /** One statement at a time: pg no longer wants to queue them. */
  #query(client: pg.Client, statement: string): Promise<unknown> {
    const run = () => client.query(statement)
    const result = this.#lastQuery.then(run, run)
    this.#lastQuery = result
    return result
  }

  #deliver(channel: string, payload: string): void {
    for (const listener of this.#listeners) {
      if (listener.channel === channel) this.#notify(channel, () => listener.onMessage(payload))
    }
  }

  #notify(channel: string, hear: () => void): void {
    try {
      hear()
    } catch (error) {
      this.#log.error({ err: error, channel }, 'a notification could not be handled')
    }
  }

  #lost(client: pg.Client, error?: Error): void {
    if (client !== this.#client || this.#closed) return
    this.#client = undefined
    this.#lostAt = performance.now()
    clearInterval(this.#heartbeat)
    client.end().catch(() => undefined)
    this.#onLost(error ?? new Error('Connection terminated'))
    this.#reconnectLater()
  }

  #reconnectLater(): void {
    if (this.#closed) return
    this.#retry = setTimeout(() => {
      if (!this.#client) this.#connect().catch(() => this.#reconnectLater())
    }, this.#delayMs)
    this.#retry.unref()
    this.#delayMs = Math.min(this.#delayMs * 2, LONGEST_DELAY_MS)
  }
}
