/** Channels on which the database notifies every process of deleted tokens and of ended sessions. */
export const TOKENS_CHANNEL = 'multitenancy_tokens'
export const SESSIONS_CHANNEL = 'multitenancy_sessions'
