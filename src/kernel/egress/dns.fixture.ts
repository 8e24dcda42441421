/** A name server on a real UDP socket, with configured responses. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'

/** undefined: no response. */
export type DnsResponse = readonly string[] | 'NXDOMAIN' | 'SERVFAIL' | undefined

export type Zone = (name: string, type: 'A' | 'AAAA') => DnsResponse | Promise<DnsResponse>

export interface NameServer {
  readonly address: string
  /** `example.com A`, in the order in which they were asked. */
  readonly questions: readonly string[]
}

const CODE = { NXDOMAIN: 3, SERVFAIL: 2 }

export async function startNameServer(zone: Zone): Promise<NameServer> {
  const questions: string[] = []
  const socket = createSocket('udp4')
  socket.on('message', async (message, { port, address }) => {
    const { name, type, end } = questionOf(message)
    questions.push(`${name} ${type}`)
    const known = await zone(name, type)
    if (known === undefined) return
    const addresses = typeof known === 'string' ? [] : known
    const code = typeof known === 'string' ? CODE[known] : 0
    const header = Buffer.from(message.subarray(0, 12))
    header.writeUInt16BE(0x8180 | code, 2)
    header.writeUInt16BE(addresses.length, 6)
    header.writeUInt32BE(0, 8)
    const records = addresses.map((each) => resourceRecord(type, each))
    socket.send(Buffer.concat([header, message.subarray(12, end), ...records]), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  onTestFinished(() => void socket.close())
  return { address: `127.0.0.1:${socket.address().port}`, questions }
}

function questionOf(message: Buffer): { name: string; type: 'A' | 'AAAA'; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = message.readUInt8(at); length > 0; length = message.readUInt8(at)) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at + 1) === 1 ? 'A' : 'AAAA', end: at + 5 }
}

function resourceRecord(type: 'A' | 'AAAA', address: string): Buffer {
  const bytes =
    type === 'A' ? address.split('.').map(Number) : groups(address).flatMap((each) => [each >> 8, each & 0xff])
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0) // the name of the question
  head.writeUInt16BE(type === 'A' ? 1 : 28, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(60, 6)
  head.writeUInt16BE(bytes.length, 10)
  return Buffer.concat([head, Buffer.from(bytes)])
}

/** Of an IPv6 address that is written in full. */
const groups = (address: string) => address.split(':').map((each) => Number.parseInt(each, 16))
