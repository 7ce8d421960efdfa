"""`Workspace`: everything that kglink does, as methods of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.workspace import discover as discover_verbs
from kglink.workspace import doctor as doctor_verbs
from kglink.workspace import entities as entities_verbs
from kglink.workspace import evaluate as evaluate_verbs
from kglink.workspace import index as index_verbs
from kglink.workspace import kbs as kbs_verbs
from kglink.workspace import link as link_verbs
from kglink.workspace import memory as memory_verbs
from kglink.workspace import overlaps as overlaps_verbs
from kglink.workspace import plan as plan_verbs
from kglink.workspace import report as report_verbs
from kglink.workspace import resolve as resolve_verbs
from kglink.workspace import review as review_verbs
from kglink.workspace import spaces as spaces_verbs
from kglink.workspace import texts as texts_verbs
from kglink.workspace import training as training_verbs
from kglink.workspace.opened import Opened

if TYPE_CHECKING:
    from kglink.training.job import FinetuneJob, Tell
    from kglink.workspace.publish import Finetuned


class Workspace(Opened):
    """An open workspace folder; each command of the command line is a method."""

    # KBs
    add_kb = kbs_verbs.add_kb
    kbs = kbs_verbs.kbs
    kb = kbs_verbs.kb
    export = kbs_verbs.export
    remove_kb = kbs_verbs.remove_kb
    plan = plan_verbs.plan
    # entities
    entities = entities_verbs.entities
    entity = entities_verbs.entity
    add_entity = entities_verbs.add_entity
    remove_entity = entities_verbs.remove_entity
    vector = entities_verbs.vector
    vectors = entities_verbs.vectors
    # overlaps
    find_overlaps = overlaps_verbs.find_overlaps
    overlaps = overlaps_verbs.overlaps
    review_overlaps = overlaps_verbs.review_overlaps
    reviewed_overlaps = overlaps_verbs.reviewed_overlaps
    train_overlap_model = overlaps_verbs.train_overlap_model
    export_overlaps = overlaps_verbs.export_overlaps
    import_overlaps = overlaps_verbs.import_overlaps
    compare_overlaps = overlaps_verbs.compare_overlaps
    # spaces
    build = spaces_verbs.build
    build_if_stale = spaces_verbs.build_if_stale
    spaces = spaces_verbs.spaces
    space_summary = spaces_verbs.space_summary
    compare_spaces = spaces_verbs.compare_spaces
    compare_recalls = spaces_verbs.compare_recalls
    delete_space = spaces_verbs.delete_space
    index_presets = index_verbs.index_presets
    change_index = index_verbs.change_index
    measure_index = index_verbs.measure_index
    is_index_asked = index_verbs.is_index_asked
    distill = training_verbs.distill
    export_model = training_verbs.export_model

    # fine-tuning
    def finetune(self, job: FinetuneJob, *, progress: Tell = lambda _: None) -> Finetuned:
        """Learn from mentions of the source KBs (S), the target KBs (T), their overlaps (O).

        The job's space is built with the model and published if it answers no worse. ``progress``
        gets every step and the reports of the training.
        """
        from kglink.workspace.finetune import finetune

        return finetune(self, job, progress)

    runs = training_verbs.runs
    run = training_verbs.run
    check_run_deletable = training_verbs.check_run_deletable
    delete_run = training_verbs.delete_run
    recipes = training_verbs.recipes
    recipe = training_verbs.recipe
    report = report_verbs.report
    # texts
    texts = texts_verbs.texts
    link = link_verbs.link
    link_job = link_verbs.link_job
    explain = link_verbs.explain
    search = link_verbs.search
    resolve = resolve_verbs.resolve
    discover = discover_verbs.discover
    discovered = discover_verbs.discovered
    judge_discovery = discover_verbs.judge_discovery
    promote = discover_verbs.promote
    correct = memory_verbs.correct
    corrections = memory_verbs.corrections
    take_back = memory_verbs.take_back
    review_links = review_verbs.review_links
    learn = memory_verbs.learn
    forget = memory_verbs.forget
    fit = memory_verbs.fit
    fit_scoring = memory_verbs.fit_scoring
    fit_clusterer = memory_verbs.fit_clusterer
    kept_clusterer_choice = memory_verbs.kept_clusterer_choice
    write_candidates = evaluate_verbs.write_candidates
    evaluate = evaluate_verbs.evaluate
    evaluate_end_to_end = evaluate_verbs.evaluate_end_to_end
    evaluate_errors = evaluate_verbs.evaluate_errors
    evaluate_clusters = evaluate_verbs.evaluate_clusters
    evaluate_overlaps = evaluate_verbs.evaluate_overlaps
    overlap_significance = evaluate_verbs.overlap_significance
    # the machine, and what is installed
    doctor = doctor_verbs.doctor
    licences = doctor_verbs.licences
    plugins = doctor_verbs.plugins
