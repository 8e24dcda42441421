/**
 * Starts OpenStack Swift with its S3 interface, as Debian packages it: four processes, one disk, one replica, no
 * daemons, temporary data.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { programPath } from '../setup/not-run.ts'
import { freePort } from '../support/free-port.ts'

const STARTED_WITHIN_MS = 60_000
/** Small, so that a list of several pages is short. */
export const LISTED_AT_ONCE = 5

export interface Swift {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string }
  stop(): Promise<void>
}

const SERVERS = ['account', 'container', 'object'] as const

export async function startSwift(): Promise<Swift> {
  const directory = mkdtempSync(join(tmpdir(), 'tenantry-swift-'))
  const running: ChildProcess[] = []
  let dismiss = () => {}
  const stop = async () => {
    dismiss()
    await Promise.all(running.map(ended))
    rmSync(directory, { recursive: true, force: true })
  }
  try {
    mkdirSync(join(directory, 'devices/disk'), { recursive: true })
    const ports: Record<string, number> = {}
    for (const server of SERVERS) {
      const port = await freePort()
      ports[server] = port
      running.push(run(directory, server, storageServer(directory, server, port)))
    }
    makeRings(directory, ports)
    const port = await freePort()
    running.push(run(directory, 'proxy', proxyServer(directory, port)))
    dismiss = endWithThisProcess(running, directory)
    const endpoint = `http://127.0.0.1:${port}`
    await eventually(async () => {
      const { status } = await fetch(`${endpoint}/healthcheck`)
      if (status !== 200) throw new Error(`swift returned ${status}`)
    }, STARTED_WITHIN_MS)
    return { endpoint, credentials: { accessKeyId: 'test:tester', secretAccessKey: 'testing' }, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Writes the rings, which name the address of each server. One program writes all, because Python starts slowly. */
function makeRings(directory: string, ports: Readonly<Record<string, number>>): void {
  const program = `
import sys
from swift.common.ring import RingBuilder
for ring in sys.argv[2:]:
    name, port = ring.split(':')
    builder = RingBuilder(2, 1, 1)
    builder.add_dev({'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': int(port), 'device': 'disk', 'weight': 1})
    builder.rebalance()
    builder.get_ring().save('%s/%s.ring.gz' % (sys.argv[1], name))
`
  const rings = Object.entries(ports).map(([name, port]) => `${name}:${port}`)
  execFileSync('/usr/bin/python3', ['-c', program, directory, ...rings])
}

/** One process each, with timeouts for a busy machine. */
const common = (directory: string, port: number) => `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
workers = 0
user = ${userInfo().username}
swift_dir = ${directory}
devices = ${join(directory, 'devices')}
mount_check = false
fallocate_reserve = 0
conn_timeout = 30
node_timeout = 60
`

/** Each object updates its listing within the request, so that listings are never stale. */
const storageServer = (directory: string, server: string, port: number) => `${common(directory, port)}
container_update_timeout = 60
[pipeline:main]
pipeline = ${server}-server
[app:${server}-server]
use = egg:swift#${server}
conn_timeout = 30
node_timeout = 60
`

const proxyServer = (directory: string, port: number) => `${common(directory, port)}
[pipeline:main]
pipeline = catch_errors healthcheck cache s3api tempauth slo dlo proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
max_bucket_listing = ${LISTED_AT_ONCE}
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
conn_timeout = 30
node_timeout = 60
recoverable_node_timeout = 60
`

function run(directory: string, server: string, configuration: string): ChildProcess {
  const file = join(directory, `${server}-server.conf`)
  writeFileSync(file, configuration)
  return spawn(required(`swift-${server}-server`), [file], { cwd: directory, stdio: ['ignore', 'inherit', 'inherit'] })
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

/** Ends the processes with this one. Returns a function that stops the watcher. */
function endWithThisProcess(running: readonly ChildProcess[], directory: string): () => void {
  const script = 'cat; directory="$1"; shift; kill -9 "$@"; rm -rf "$directory"'
  const watcher = spawn('sh', ['-c', script, 'sh', directory, ...running.map(({ pid }) => String(pid))], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  watcher.unref()
  return () => watcher.kill()
}

function required(name: string): string {
  const path = programPath(name)
  if (!path) throw new Error(`${name} is not installed`)
  return path
}
