import { z } from 'zod'
import { handles, type Job, jobType, type Recurring } from '../kernel/jobs.ts'
import type { Tenants } from './index.ts'
import { BackupTenant, CloneTenant, MoveTenant, RecoverTransfers, RestoreTenant, RunBackups } from './transfers/jobs.ts'

const ofTenant = z.object({ tenantId: z.string() })

export const InstallTenant = jobType({
  name: 'InstallTenant',
  summary: "Makes a tenant's storage and migrates it",
  data: ofTenant,
  retries: 3,
  retryDelaySeconds: 1,
})

export const UninstallTenant = jobType({
  name: 'UninstallTenant',
  summary: 'Removes everything of a tenant whose time to be restored is over',
  data: ofTenant,
  retries: 5,
  retryDelaySeconds: 10,
})

export const FenceTenant = jobType({
  name: 'FenceTenant',
  summary: "Closes a suspended or deleted tenant's storage once its server can be reached again",
  data: ofTenant,
  retries: 14, // some four hours; then RecoverFences goes on
  retryDelaySeconds: 1,
})

export const PurgeTenants = jobType({
  name: 'PurgeTenants',
  summary: 'Starts the removal of deleted tenants past their purgeAt',
  data: z.object({}),
  workers: 1,
})

export const RecoverInstallations = jobType({
  name: 'RecoverInstallations',
  summary: 'Fails tenants whose installation was lost, so that none stays provisioning for ever',
  data: z.object({}),
  workers: 1,
})

export const RecoverFences = jobType({
  name: 'RecoverFences',
  summary: 'Closes storage that is open though its tenant is suspended or deleted',
  data: z.object({}),
  workers: 1,
})

const TRANSFERS = [BackupTenant, RestoreTenant, CloneTenant, MoveTenant]

export const jobs: readonly Job<Tenants>[] = [
  handles(InstallTenant, ({ installation }, { tenantId }, attempt) => installation.install(tenantId, attempt)),
  handles(UninstallTenant, async ({ installation }, { tenantId }) => void (await installation.purge(tenantId))),
  handles(FenceTenant, ({ fences }, { tenantId }) => fences.close(tenantId)),
  handles(PurgeTenants, ({ installation }) => installation.purgeExpired()),
  handles(RecoverInstallations, ({ installation }) => installation.recover()),
  handles(RecoverFences, ({ openStorage }) => openStorage.close()),
  ...TRANSFERS.map((type) =>
    handles(type, ({ transfers }: Tenants, { transferId }, attempt) => transfers.work(transferId, attempt)),
  ),
  handles(RecoverTransfers, ({ transfers }) => transfers.recover()),
  handles(RunBackups, ({ transfers }) => transfers.runDue()),
]

export const schedule: readonly Recurring[] = [
  { type: PurgeTenants, cron: '17 3 * * *' },
  { type: RecoverInstallations, cron: '* * * * *' },
  { type: RecoverTransfers, cron: '* * * * *' },
  { type: RunBackups, cron: '*/10 * * * *' },
  { type: RecoverFences, cron: '41 * * * *' },
]
