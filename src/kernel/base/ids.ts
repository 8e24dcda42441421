/**
 * Creates UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, a counter, random bits. Ids of one process strictly increase, also within a
 * millisecond and when the clock steps back, so they are keys of keyset pages.
 */
import { randomBytes, randomUUID } from 'node:crypto'

/** A UUIDv7 of this very millisecond. Within it, ids come in no order. */
export function uuidAt(ms: number): string {
  const time = ms.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

export const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

/** Below every UUIDv7 of this millisecond, and above those before: a bound for a range of them. */
export function floorOfUuidsAt(ms: number): string {
  const bytes = Buffer.alloc(16)
  bytes.writeUIntBE(Math.max(0, ms), 0, 6)
  return textOf(bytes)
}

/** A generator of ids that rise strictly. Another generator has its own clock and counter. */
export function idSequence(): (nowMs?: number) => string {
  let lastMs = 0
  let counter = 0
  return (nowMs = Date.now()) => {
    const bytes = randomBytes(16)
    if (nowMs > lastMs) {
      lastMs = nowMs
      counter = bytes.readUInt16BE(6) & 0x07ff // starts in the lower half, so that there is room to count up
    } else if (counter < 0x0fff) {
      counter++
    } else {
      lastMs++
      counter = 0
    }
    bytes.writeUIntBE(lastMs, 0, 6)
    bytes.writeUInt16BE(0x7000 | counter, 6)
    bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8)
    return textOf(bytes)
  }
}

/** The sequence of this process. */
export const uuidv7 = idSequence()

function textOf(bytes: Buffer): string {
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
