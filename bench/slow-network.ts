/** A network between a client and its server, in a process of its own so that what it costs is not the client's. */
import { serve } from './serve.ts'

export interface SlowNetwork {
  /** The server's URL by way of it. */
  readonly url: string
  close(): Promise<void>
}

/** @param delayMs of each direction. */
export async function openSlowNetwork(serverUrl: string, delayMs: number): Promise<SlowNetwork> {
  const target = new URL(serverUrl)
  const { url: address, close } = await serve('slow-network', {
    TARGET: target.host,
    DELAY_MS: String(delayMs),
  })
  target.host = new URL(address).host
  return { url: target.href, close }
}
