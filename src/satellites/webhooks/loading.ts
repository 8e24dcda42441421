/** Bodies of what was claimed, some at a time: they may be large, and what has come can be begun. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Claimed, DeliveryQueue, Head } from './queue.ts'

const MOST_BYTES_AT_ONCE = 8 * 1024 * 1024
const SHORTLY_MS = 20

/** @param isFull whether so much is held that the next have to wait */
export async function* loaded(
  queue: DeliveryQueue,
  heads: readonly Head[],
  isFull: () => boolean,
): AsyncGenerator<readonly Claimed[]> {
  for (let left = heads; left.length > 0; ) {
    while (isFull()) await sleep(SHORTLY_MS)
    const part = firstBytes(left, MOST_BYTES_AT_ONCE)
    yield await queue.load(part)
    left = left.slice(part.length)
  }
}

/** As many as their bodies leave room for; one at least. */
function firstBytes(heads: readonly Head[], most: number): readonly Head[] {
  let bytes = 0
  const count = heads.findIndex((head, index) => {
    bytes += head.bytes
    return bytes > most && index > 0
  })
  return count < 0 ? heads : heads.slice(0, count)
}
