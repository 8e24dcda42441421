/**
 * Derives the provider's identifier of a host's usage report: a UUID in lowercase, or a UUID derived from any other id.
 */
import { createHash } from 'node:crypto'
import { isUuid } from '../../../kernel/base/ids.ts'

/** Equal results only for equal tenant, meter and id. A derived UUID has version 8 (RFC 9562). */
export function usageIdOf(tenantId: string, meter: string, id: string): string {
  if (isUuid(id)) return id.toLowerCase()
  const bytes = createHash('sha256')
    .update(JSON.stringify([tenantId, meter, id]))
    .digest()
  bytes.writeUInt8(0x80 | (bytes.readUInt8(6) & 0x0f), 6)
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}
