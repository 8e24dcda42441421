/** Types of the jobs of a tenant's life cycle; lifecycle/parts.ts has their handlers. */
import { z } from 'zod'
import { jobType } from '../../kernel/jobs/jobs.ts'

const ofTenant = z.object({ tenantId: z.string() })

export const InstallTenant = jobType({
  name: 'InstallTenant',
  summary: "Creates a tenant's storage and migrates it",
  data: ofTenant,
  retries: 3,
  retryDelaySeconds: 1,
})

export const UninstallTenant = jobType({
  name: 'UninstallTenant',
  summary: 'Removes all data of a deleted tenant past its purgeAt',
  data: ofTenant,
  retries: 5,
  retryDelaySeconds: 10,
})

export const FenceTenant = jobType({
  name: 'FenceTenant',
  summary: "Closes a suspended or deleted tenant's storage after its server is available again",
  data: ofTenant,
  retries: 14, // about four hours; then RecoverFences continues
  retryDelaySeconds: 1,
})

export const PurgeTenants = jobType({
  name: 'PurgeTenants',
  summary: 'Starts the purge of deleted tenants past their purgeAt',
  data: z.object({}),
  workers: 1,
})

export const RecoverInstallations = jobType({
  name: 'RecoverInstallations',
  summary: 'Fails tenants whose installation was lost, so that none stays provisioning forever',
  data: z.object({}),
  workers: 1,
})

export const RecoverFences = jobType({
  name: 'RecoverFences',
  summary: 'Closes open storage of suspended or deleted tenants',
  data: z.object({}),
  workers: 1,
})

export const RecoverAdoptions = jobType({
  name: 'RecoverAdoptions',
  summary: 'Settles adoptions of existing storage whose process was interrupted',
  data: z.object({}),
  workers: 1,
})
