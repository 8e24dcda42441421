/** By what the provider knows a host's report: a UUID is taken as it is, in small letters; of another text one is made. */
import { createHash } from 'node:crypto'
import { isUuid } from '../../../kernel/base/ids.ts'

/** The same of the same tenant, meter and text only. A UUID of version 8 (RFC 9562). */
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
