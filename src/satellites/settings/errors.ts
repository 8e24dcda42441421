import { defineError } from '../../kernel/base/errors.ts'

export const SettingNotFound = defineError('E_SETTING_NOT_FOUND', 404, 'Setting not found')
/** The stored value cannot be decrypted, or does not match the present definition. */
export const SettingUnusable = defineError('E_SETTING_UNUSABLE', 409, 'Stored setting is unusable')
