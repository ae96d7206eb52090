/*
 * The service worker's script. A page can serve the script unchanged, or include the script in the page's own worker by
 * `importScripts` or `import`.
 */
import { RingWorker, type WorkerOptions, type WorkerScope } from "./ringing.js";

export type { WorkerOptions, WorkerTexts } from "./ringing.js";

declare const self: WorkerScope & { bellwire?: WorkerOptions };

new RingWorker(self, self.bellwire);
