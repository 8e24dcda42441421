/** Decodes chunks of UTF-8 to text. Invalid bytes are rejected with their line. */
import { isUtf8 } from 'node:buffer'
import { InvalidRequest } from '../../kernel/base/errors.ts'

const LINE_BREAK = 0x0a
const BYTE_ORDER_MARK = '\ufeff'

export class Utf8Text {
  #isBeginning = true
  #line = 1
  /** The beginning of a character that continues in the next chunk. */
  #rest: Buffer = Buffer.alloc(0)

  /** Returns all complete characters. */
  read(piece: Uint8Array): string {
    const bytes = Buffer.concat([this.#rest, piece])
    const whole = bytes.subarray(0, bytes.length - lengthOfCut(bytes))
    this.#rest = bytes.subarray(whole.length)
    this.#check(whole)
    const text = whole.toString()
    if (!this.#isBeginning || text === '') return text
    this.#isBeginning = false
    return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text
  }

  end(): void {
    if (this.#rest.length > 0) throw noText(this.#line)
  }

  #check(bytes: Buffer): void {
    const isText = isUtf8(bytes) && !bytes.includes(0)
    for (let from = 0; ; this.#line++) {
      const end = bytes.indexOf(LINE_BREAK, from)
      if (!isText) {
        const line = bytes.subarray(from, end < 0 ? bytes.length : end)
        if (!isUtf8(line) || line.includes(0)) throw noText(this.#line)
      }
      if (end < 0) return
      from = end + 1
    }
  }
}

/** Number of bytes at the end that start a character of the next chunk. */
function lengthOfCut(bytes: Buffer): number {
  for (let back = 1; back <= 3; back++) {
    const byte = bytes.at(-back) ?? 0
    if (byte >> 6 === 0b10) continue
    const length = byte < 0b1100_0000 ? 1 : byte < 0b1110_0000 ? 2 : byte < 0b1111_0000 ? 3 : 4
    return length > back ? back : 0
  }
  return 0
}

const noText = (line: number) =>
  InvalidRequest(`line ${line}: invalid UTF-8; write a dump with pg_dump --format=plain --encoding=UTF8`)
