/** Serves the built front ends of other products from their packages, which npm loads into a temporary folder. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join, normalize } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'

const run = promisify(execFile)

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}

export interface Peer {
  readonly name: string
  readonly package: string
  /** Folder of the built files, and its page, in the package. */
  readonly folder: string
  readonly page: string
}

export const PEERS: readonly Peer[] = [
  { name: 'Unleash 7.5.1', package: 'unleash-server@7.5.1', folder: 'frontend/build', page: 'index.html' },
  { name: 'bull-board 9.10.2', package: '@bull-board/ui@9.10.2', folder: 'dist', page: 'index.ejs' },
]

/** The front end of a peer, compressed, at the returned address, without its API and without fonts of other origins. */
export async function servePeer({ package: name, folder, page }: Peer) {
  const directory = mkdtempSync(join(tmpdir(), 'tenantry-peer-'))
  const { stdout } = await run('npm', ['pack', '--silent', name], { cwd: directory })
  await run('tar', ['xzf', stdout.trim()], { cwd: directory })
  const root = join(directory, 'package', folder)
  const shell = readFileSync(join(root, page), 'utf8')
    .replaceAll(/::\w+::|<%[=-][^%]*%>/g, '')
    .replaceAll(/<link[^>]*fonts[^>]*>|<base[^>]*>/g, '')
  const server = createServer(({ url = '/' }, response) => {
    const path = normalize(decodeURIComponent(new URL(url, 'http://peer').pathname))
    try {
      const content = path === '/' ? shell : readFileSync(join(root, path))
      const type = TYPES[path === '/' ? '.html' : extname(path)] ?? 'application/octet-stream'
      response.writeHead(200, { 'content-type': type, 'content-encoding': 'gzip' }).end(gzipSync(content))
    } catch {
      response.writeHead(404).end()
    }
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
