/**
 * A way to a PostgreSQL server on which things go wrong at a chosen message: the line is cut before the message arrives, or before
 * its answer does, or nothing more is heard until somebody lets go.
 *
 *   const fault = proxy.at('commit', 'lose the answer')
 *   ... what sends a COMMIT ...
 *   await fault.happened
 *
 * A message is found by a text in it, in what a client writes at once: enough for statements, names of prepared ones, and the
 * startup (`application_name`).
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type FaultKind = 'cut the line' | 'lose the answer' | 'hang'

export interface Fault {
  /** Resolves when a message has met it. */
  readonly happened: Promise<void>
  readonly hasHappened: boolean
  /** What hangs is cut off; a fault that nothing has met is taken away. */
  end(): void
}

export interface FaultProxy {
  /** Another URL of the same server, by way of the proxy. */
  through(url: string): string
  /**
   * Once: the next message that has `text` in it, from whichever client.
   * @param passes how many of them get through before.
   */
  at(text: string, kind: FaultKind, passes?: number): Fault
  /** Connections that are open through it. */
  readonly open: number
  close(): Promise<void>
}

export interface FaultProxyOptions {
  /** Changes the first message of a connection, which says who wants to reach which database. */
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

/** @param serverUrl of any database of the server. */
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
      line.server.once('data', () => cut(line)) // it has been answered, so it has been done
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
