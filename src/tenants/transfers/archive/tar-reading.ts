/**
 * A tar file as it comes, entry by entry: stricter than tar itself, as an archive holds what was written into it and nothing
 * else. Headers are those of POSIX (ustar, and pax where a name is long), what fills a block up is zeros, and the file ends with
 * two blocks of zeros exactly.
 */
import type { ByteSource } from '../../../kernel/base/byte-source.ts'
import { altered, truncated } from './errors.ts'
import { BLOCK_BYTES, paddingBytes, TAR_END } from './tar-writing.ts'

/** Of a pax header: it has a name in it, and what other programs add. */
const MAX_PAX_BYTES = 64 * 1024
const MAGIC = Buffer.from('ustar\0')
const FILE_FLAGS = ['0', '\0']
const PAX_FLAG = 'x'
const CHECKSUM_AT = 148
const CHECKSUM_BYTES = 8

export interface TarEntry {
  readonly name: string
  readonly isFile: boolean
  readonly size: number
}

/**
 * The next entry, whose `body` is to be read before the one after it; nothing at the end of the tar file.
 * @param unreadable what is thrown where a header should be and is none
 */
export async function nextEntry(tar: ByteSource, unreadable: () => Error = broken): Promise<TarEntry | undefined> {
  const block = await wholly(tar, BLOCK_BYTES)
  if (isZeros(block)) {
    if (!isZeros(await wholly(tar, BLOCK_BYTES))) throw broken()
    return undefined
  }
  const header = headerOf(block)
  if (!header) throw unreadable()
  if (header.flag !== PAX_FLAG) return header
  if (header.size > MAX_PAX_BYTES) throw broken()
  const records = paxRecords(await wholly(tar, header.size))
  await passPadding(tar, header.size)
  const described = headerOf(await wholly(tar, BLOCK_BYTES))
  // A size among the records would stand for that of the header; ours has room for any.
  if (!described || described.flag === PAX_FLAG || !records || records.has('size')) throw broken()
  return { ...described, name: records.get('path') ?? described.name }
}

/** What is in an entry. */
export async function* body(tar: ByteSource, { size }: TarEntry): AsyncGenerator<Buffer, void, undefined> {
  for (let missing = size; missing > 0; ) {
    const piece = await tar.take(missing)
    if (!piece) throw truncated()
    missing -= piece.length
    yield piece
  }
  await passPadding(tar, size)
}

async function passPadding(tar: ByteSource, size: number): Promise<void> {
  if (!isZeros(await wholly(tar, paddingBytes(size)))) throw broken()
}

async function wholly(tar: ByteSource, count: number): Promise<Buffer> {
  const bytes = await tar.exactly(count)
  if (bytes.length < count) throw truncated()
  return bytes
}

const broken = () => altered('it is not a sound tar file')

const isZeros = (bytes: Buffer): boolean => bytes.equals(TAR_END.subarray(0, bytes.length))

function headerOf(block: Buffer): (TarEntry & { readonly flag: string }) | undefined {
  const size = numberIn(block.subarray(124, 136))
  const checksum = numberIn(block.subarray(CHECKSUM_AT, CHECKSUM_AT + CHECKSUM_BYTES))
  const isPosix = block.subarray(257, 263).equals(MAGIC)
  if (!isPosix || size === undefined || checksum !== checksumOf(block)) return undefined
  const flag = block.toString('latin1', 156, 157)
  const name = textIn(block.subarray(0, 100))
  const folder = textIn(block.subarray(345, 500))
  return { name: folder ? `${folder}/${name}` : name, isFile: FILE_FLAGS.includes(flag), size, flag }
}

/** All bytes of the header, with spaces for the checksum itself. */
const checksumOf = (block: Buffer): number =>
  block.reduce((sum, byte) => sum + byte, 0) -
  block.subarray(CHECKSUM_AT, CHECKSUM_AT + CHECKSUM_BYTES).reduce((sum, byte) => sum + byte - 0x20, 0)

/** In octal digits; from 8 GiB on, where these have no room, in binary behind the byte 0x80. */
function numberIn(field: Buffer): number | undefined {
  if (field[0] === 0x80) {
    const number = BigInt(`0x${field.toString('hex', 1)}`)
    return number <= Number.MAX_SAFE_INTEGER ? Number(number) : undefined
  }
  const digits = /^ *([0-7]+)[ \0]*$/.exec(field.toString('latin1'))?.[1]
  return digits === undefined ? undefined : Number.parseInt(digits, 8)
}

function textIn(field: Buffer): string {
  const end = field.indexOf(0)
  return field.toString('utf8', 0, end < 0 ? field.length : end)
}

/** Lines of `<length> <key>=<value>`, where the length counts the whole line. */
function paxRecords(bytes: Buffer): Map<string, string> | undefined {
  const records = new Map<string, string>()
  for (let rest = bytes; rest.length > 0; ) {
    const length = Number(/^[1-9]\d{0,5} /.exec(rest.toString('latin1', 0, 7))?.[0])
    const line = rest.subarray(0, length)
    const [, key, value] = /^\d+ ([^=]+)=(.*)\n$/s.exec(line.toString('utf8')) ?? []
    if (line.length !== length || key === undefined || value === undefined) return undefined
    records.set(key, value)
    rest = rest.subarray(length)
  }
  return records
}
