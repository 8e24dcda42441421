/**
 * Starts a slow network between a client and its server, as a process, so that the client does not spend CPU time on
 * it.
 */
import { serve } from './serve.ts'

export interface SlowNetwork {
  /** URL of the server through the slow network. */
  readonly url: string
  close(): Promise<void>
}

/** @param delayMs delay of each direction. */
export async function openSlowNetwork(serverUrl: string, delayMs: number): Promise<SlowNetwork> {
  const target = new URL(serverUrl)
  const { url: address, close } = await serve('slow-network', {
    TARGET: target.host,
    DELAY_MS: String(delayMs),
  })
  target.host = new URL(address).host
  return { url: target.href, close }
}
