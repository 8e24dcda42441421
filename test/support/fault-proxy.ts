/**
 * A proxy to a PostgreSQL server that injects faults at chosen messages: the connection is cut before the message
 * arrives, the response is lost, or the server hangs until the fault ends.
 *
 *   const fault = proxy.at('commit', 'lose the answer')
 *   ... what sends a COMMIT ...
 *   await fault.happened
 *
 * A message is selected by a text in one write of a client: statements, names of prepared statements, the startup
 * (`application_name`).
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type FaultKind = 'cut the line' | 'lose the answer' | 'hang'

export interface Fault {
  /** Resolves when a message has met the fault. */
  readonly happened: Promise<void>
  readonly hasHappened: boolean
  /** Cuts off hanging connections; removes a fault that no message has met. */
  end(): void
}

export interface FaultProxy {
  /** URL of the same server through the proxy. */
  through(url: string): string
  /**
   * Arms a fault for one message that contains `text`, from any client.
   * @param passes number of such messages that pass before
   */
  at(text: string, kind: FaultKind, passes?: number): Fault
  /** Number of open connections through the proxy. */
  readonly open: number
  close(): Promise<void>
}

export interface FaultProxyOptions {
  /** Changes the first message of a connection, which names user and database. */
  readonly startup?: (message: Buffer) => Buffer
}

interface Line {
  readonly client: Socket
  readonly server: Socket
  hangs: boolean
}

interface Armed {
  readonly text: string
  readonly kind: FaultKind
  passes: number
  readonly meet: (line: Line) => void
}

/** @param serverUrl URL of any database of the server */
export async function startFaultProxy(serverUrl: string, { startup }: FaultProxyOptions = {}): Promise<FaultProxy> {
  const target = new URL(serverUrl)
  const lines = new Set<Line>()
  const armed = new Set<Armed>()

  const listener = createServer((client) => {
    const line: Line = { client, server: connect(Number(target.port), target.hostname), hangs: false }
    let isFirst = true
    lines.add(line)
    client.on('data', (data) => {
      const message = isFirst && startup ? startup(data) : data
      isFirst = false
      if (line.hangs) return
      const fault = [...armed].find((one) => message.includes(one.text) && one.passes-- === 0)
      if (fault) meet(fault, line, message)
      else line.server.write(message)
    })
    line.server.on('data', (data) => {
      if (!line.hangs) client.write(data)
    })
    for (const [socket, other] of [
      [client, line.server],
      [line.server, client],
    ] as const) {
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        lines.delete(line)
        other.destroy()
      })
    }
  })

  const meet = (fault: Armed, line: Line, message: Buffer): void => {
    armed.delete(fault)
    line.hangs = true
    if (fault.kind === 'cut the line') cut(line)
    if (fault.kind === 'lose the answer') {
      line.server.write(message)
      line.server.once('data', () => cut(line)) // the server has responded, so the message is effective
    }
    fault.meet(line)
  }

  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const { port } = listener.address() as AddressInfo
  return {
    through(url) {
      const changed = new URL(url)
      changed.host = `127.0.0.1:${port}`
      return changed.href
    },
    at(text, kind, passes = 0) {
      const { promise, resolve } = Promise.withResolvers<void>()
      let hanging: Line | undefined
      const fault: Armed = {
        text,
        kind,
        passes,
        meet: (line) => {
          hanging = line
          resolve()
        },
      }
      armed.add(fault)
      return {
        happened: promise,
        get hasHappened() {
          return hanging !== undefined
        },
        end: () => {
          armed.delete(fault)
          if (hanging) cut(hanging)
        },
      }
    },
    get open() {
      return lines.size
    },
    async close() {
      const closed = once(listener, 'close')
      listener.close()
      for (const line of lines) cut(line)
      await closed
    },
  }
}

function cut({ client, server }: Line): void {
  client.destroy()
  server.destroy()
}
