import { defineError } from '../kernel/errors.ts'

export const TenantNotFound = defineError('E_TENANT_NOT_FOUND', 404, 'Tenant not found')
export const TenantExists = defineError('E_TENANT_EXISTS', 409, 'The tenant id is taken')
export const TenantState = defineError('E_TENANT_STATE', 409, 'Not possible in this state')
export const DomainTaken = defineError('E_DOMAIN_TAKEN', 409, 'The domain belongs to another tenant')
export const TenantIsSuspended = defineError('E_TENANT_SUSPENDED', 403, 'The tenant is suspended')
export const TenantNotReady = defineError('E_TENANT_NOT_READY', 503, 'The tenant is not ready')
export const TenantInMaintenance = defineError('E_TENANT_MAINTENANCE', 503, 'The tenant is in maintenance')
export const PlanNotFound = defineError('E_PLAN_NOT_FOUND', 404, 'Plan not found')
export const PlanResolvedByHost = defineError('E_PLAN_RESOLVED_BY_HOST', 409, 'The host decides the plan')
export const InstallationFailed = defineError('E_INSTALLATION_FAILED', 500, 'The installation was given up')
