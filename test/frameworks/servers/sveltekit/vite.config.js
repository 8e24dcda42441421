import adapter from '@sveltejs/adapter-node'
import { sveltekit } from '@sveltejs/kit/vite'

/** SvelteKit rejects a POST without `Origin` that has no content type, or that of a form. */
const csrf = { trustedOrigins: ['*'] }

export default { plugins: [sveltekit({ adapter: adapter(), csrf })] }
