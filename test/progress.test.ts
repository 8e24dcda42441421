/** Checks the progress output of long commands. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test, vi } from 'vitest'
import { directory } from '../src/drivers/archives/directory.ts'
import { auditLogs } from '../src/satellites/audit-logs/index.ts'
import { metrics } from '../src/satellites/metrics/index.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import { installed, testTenancy } from '../src/testing/base/tenancy.ts'
import { runCommand } from './contract/command-line.ts'
import { startReceiver } from './support/receiver.ts'

vi.setConfig({ testTimeout: 60_000 })

test('an export, a download, a flush and a retry report their progress', async () => {
  const path = await mkdtemp(join(tmpdir(), 'tenantry-progress-'))
  const receiver = await startReceiver()
  const { tenancy, open, end } = await testTenancy(inject('postgresUrl'), {
    satellites: [auditLogs(), metrics(), webhooks({ bridge: false })],
    backups: { archives: directory({ path: join(path, 'backups') }) },
    egress: { allowPrivateNetworks: true, allowHttp: true },
  })
  try {
    const { id } = await installed(tenancy, { id: 'acme', name: 'Acme' })
    await tenancy.stop() // a worker would send the due deliveries
    const sender = await open({ role: 'api' })
    const ran = async (...line: string[]) => {
      const progress: string[] = []
      const printed = await runCommand(sender, line, { progress: (text) => progress.push(text) })
      return { progress: progress.at(-1), printed: printed.at(-1) as Record<string, unknown> }
    }

    expect((await ran('tenant:audit:export', id)).progress).toMatch(/^[\d.]+ (B|KiB) written/)

    await sender.metrics.increment(id, 'exports')
    const flushed = await ran('tenant:metrics:flush')
    expect(flushed.progress).toMatch(new RegExp(`^${flushed.printed.sums} sums`))

    await sender.webhooks.create(id, { url: `${receiver.url}/hooks`, events: ['*'] })
    for (const total of [1, 2, 3]) await sender.webhooks.dispatch(id, 'invoice.paid', { total })
    const retried = await ran('tenant:webhooks:retry')
    expect(retried.printed).toEqual({ sent: 3 })
    expect(retried.progress).toMatch(/^3 sent/)

    await ran('tenant:backup', id)
    const [backup] = (await sender.tenants.transfers.backups.list(id, { limit: 1 })).data
    const output = join(path, 'archive.tar.gz')
    const downloaded = await ran('tenant:backup:download', id, backup?.id ?? '', '--output', output)
    const { length } = await readFile(output)
    expect(length).toBe(backup?.sizeBytes)
    expect(downloaded.printed.sizeBytes).toBe(length)
    expect(downloaded.progress).toMatch(/^([\d.]+ (B|KiB)) of \1/)
  } finally {
    await end()
    await receiver.close()
    await rm(path, { recursive: true })
  }
})
