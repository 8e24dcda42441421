/** Types of the jobs of a tenant's life; lifecycle/parts.ts has their handlers. */
import { z } from 'zod'
import { jobType } from '../../kernel/jobs/jobs.ts'

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
