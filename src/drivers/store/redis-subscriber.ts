/**
 * Receives messages from Redis over one separate connection for all channels.
 *
 * - It reconnects automatically, in a cluster to the next node. After each connection it calls `onGap` of every
 *   listener, because messages that were sent in between are lost.
 * - It pings a connection without traffic to detect an unresponsive server.
 */
import type { Redis } from 'ioredis'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Listening } from '../../kernel/database/notifications.ts'
import { addressesOf, delayMsOf, loadIoredis, optionsOf, type RedisAddress } from './redis-connection.ts'

const HEARTBEAT_MS = 1_000

interface Listener {
  readonly channel: string
  readonly onMessage: (message: string) => void
  readonly onGap: () => void
}

export class RedisSubscriber {
  readonly #address: RedisAddress
  readonly #log: Logger
  readonly #listeners = new Set<Listener>()
  #client: Redis | undefined
  #attempts = 0
  #retry: NodeJS.Timeout | undefined
  #heartbeat: NodeJS.Timeout | undefined
  #closed = false

  constructor(address: RedisAddress, log: Logger) {
    this.#address = address
    this.#log = log
  }

  /** While the server is unavailable the listener is kept; it receives messages when the server is back. */
  async listen(channel: string, onMessage: (message: string) => void, onGap: () => void): Promise<Listening> {
    const listener = { channel, onMessage, onGap }
    this.#listeners.add(listener)
    const client = this.#client
    if (!client) await this.#connect()
    else if (client.status === 'ready') await client.subscribe(channel).catch(() => client.disconnect())
    return {
      close: async () => {
        this.#listeners.delete(listener)
      },
    }
  }

  close(): void {
    this.#closed = true
    this.#listeners.clear()
    clearTimeout(this.#retry)
    clearInterval(this.#heartbeat)
    this.#client?.disconnect()
  }

  /** Resolves when the connection is subscribed, or when this attempt has failed. */
  #connect(): Promise<void> {
    const { Redis } = loadIoredis()
    const addresses = addressesOf(this.#address)
    const client = new Redis(addresses[this.#attempts % addresses.length] as string, {
      ...optionsOf(this.#address),
      // The ping below detects an unresponsive server; between two messages no data is expected.
      socketTimeout: undefined,
      enableAutoPipelining: false,
      autoResubscribe: false,
      retryStrategy: () => null,
    })
    this.#client = client
    client.on('error', (error) => this.#log.debug({ err: error }, 'the connection for messages of the store failed'))
    client.on('message', (channel: string, message: string) => this.#deliver(channel, message))
    return new Promise((resolve) => {
      client.once('close', () => {
        this.#connectLater()
        resolve()
      })
      client.once('ready', () => this.#hear(client).then(resolve, () => client.disconnect()))
    })
  }

  async #hear(client: Redis): Promise<void> {
    const channels = new Set([...this.#listeners].map(({ channel }) => channel))
    if (channels.size > 0) await client.subscribe(...channels)
    this.#attempts = 0
    this.#heartbeat = setInterval(() => client.ping().catch(() => client.disconnect()), HEARTBEAT_MS).unref()
    for (const { channel, onGap } of this.#listeners) {
      // For a listener that was added during the subscription of the others.
      if (!channels.has(channel)) await client.subscribe(channel)
      this.#notify(channel, onGap)
    }
  }

  #connectLater(): void {
    clearInterval(this.#heartbeat)
    if (this.#closed) return
    this.#attempts += 1
    if (this.#attempts === 1) this.#log.warn('the connection for messages of the store was lost; connecting again')
    this.#retry = setTimeout(() => void this.#connect(), delayMsOf(this.#attempts)).unref()
  }

  #deliver(channel: string, message: string): void {
    for (const listener of this.#listeners) {
      if (listener.channel === channel) this.#notify(channel, () => listener.onMessage(message))
    }
  }

  #notify(channel: string, hear: () => void): void {
    try {
      hear()
    } catch (error) {
      this.#log.error({ err: error, channel }, 'a message of the store could not be handled')
    }
  }
}
