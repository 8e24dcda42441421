import { defineError, invalid, type TenancyError } from '../../kernel/base/errors.ts'

export const TenantNotFound = defineError('E_TENANT_NOT_FOUND', 404, 'Tenant not found')
export const TenantNotIdentified = defineError('E_TENANT_NOT_IDENTIFIED', 400, 'The request names no tenant')
export const TenantAccessDenied = defineError('E_TENANT_ACCESS_DENIED', 403, 'No access to this tenant')
export const TenantMismatch = defineError('E_TENANT_MISMATCH', 500, 'The work in progress is for another tenant')
export const TenantScopeRequired = defineError('E_TENANT_SCOPE_REQUIRED', 500, 'A library left the scope of the tenant')
export const TenantExists = defineError('E_TENANT_EXISTS', 409, 'The tenant id is taken')
export const TenantState = defineError('E_TENANT_STATE', 409, 'Not possible in this status')
export const DomainTaken = defineError('E_DOMAIN_TAKEN', 409, 'The domain belongs to another tenant')
export const TenantIsSuspended = defineError('E_TENANT_SUSPENDED', 403, 'The tenant is suspended')
export const TenantNotReady = defineError('E_TENANT_NOT_READY', 503, 'The tenant is not ready')
export const TenantInMaintenance = defineError('E_TENANT_MAINTENANCE', 503, 'The tenant is in maintenance')
export const PlacementInUse = defineError('E_PLACEMENT_IN_USE', 409, 'The placement is configured')
export const PlacementNotFound = defineError('E_PLACEMENT_NOT_FOUND', 404, 'Placement not found')
export const CircuitOpen = defineError('E_CIRCUIT_OPEN', 503, 'The storage of the tenant is unreachable')
export const PlanNotFound = defineError('E_PLAN_NOT_FOUND', 404, 'Plan not found')
export const PlanResolvedByHost = defineError('E_PLAN_RESOLVED_BY_HOST', 409, 'The host decides the plan')
export const InstallationFailed = defineError('E_INSTALLATION_FAILED', 500, 'Tenant installation failed')
export const SqlRejected = defineError('E_SQL_REJECTED', 422, 'The database rejected the SQL')

export const RunInProgress = defineError('E_RUN_IN_PROGRESS', 409, 'Another process works on the run')

/** For an unknown id. `E_INVALID_REQUEST` for a value that is not a text, from JavaScript. */
export const tenantNotFound = (id: unknown, where = ''): TenancyError =>
  typeof id === 'string'
    ? TenantNotFound(`Tenant "${id}" not found${where}.`)
    : invalid([{ path: 'tenantId', message: `must be a text, not ${described(id)}` }])

const described = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'a list' : typeof value)
